"""Public half of a shared model, which never touches records."""
