"""Pairwise averaging: what `learner.mixing = "pairwise"` does."""

MOST_NUMBERS = 2**17
"""Of a model whose moves fit the answer of a broker, in six bits each."""
