"""Pairwise averaging: what `learner.mixing = "pairwise"` does."""
