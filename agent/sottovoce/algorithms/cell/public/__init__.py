"""Public half of a cell's protocol."""
