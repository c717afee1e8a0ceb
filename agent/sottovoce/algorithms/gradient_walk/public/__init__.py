"""Public half of a gradient walk."""
