"""Public half of the cell protocol."""
