"""Public half of the protocol of a cell."""
