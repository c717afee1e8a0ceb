"""Pairwise averaging: `learner.mixing = "pairwise"`."""

MAX_NUMBERS = 2**17
"""Largest number of parameters whose moves fit a broker's answer, in six bits each."""
