"""State machine and messages of a gradient walk, which have no access to records."""
