"""The public half of pairwise averaging."""
