"""Public half of the cell protocol, which never touches records."""
