"""The public half of a gradient walk."""
