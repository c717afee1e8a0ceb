"""Public half of pairwise averaging."""
