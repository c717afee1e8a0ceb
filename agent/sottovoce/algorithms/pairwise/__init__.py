"""Pairwise averaging: `learner.mixing = "pairwise"`."""

MAX_NUMBERS = 2**17
"""Maximum number of parameters, for which a move still fits into a broker's reply at six bits each."""
