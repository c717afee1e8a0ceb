"""Pairwise averaging, `learner.mixing = "pairwise"`."""

MAX_NUMBERS = 2**17
"""Maximum number of parameters whose moves fit into a broker's answer, at six bits each."""
