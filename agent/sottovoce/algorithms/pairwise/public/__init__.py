"""Public half of pairwise averaging, which never touches records."""
