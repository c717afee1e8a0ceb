"""State machine and messages of pairwise averaging, which have no access to records."""
