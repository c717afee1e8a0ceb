"""Pairwise averaging: `learner.mixing = "pairwise"`."""

MAX_NUMBERS = 2**17
"""Maximum number of parameters: with six bits for each, a move still fits into a broker's reply."""
