"""State machine and messages of the cell protocol, which have no access to records."""
