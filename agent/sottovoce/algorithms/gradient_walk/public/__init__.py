"""Public half of a gradient walk, which never touches records."""
