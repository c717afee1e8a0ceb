"""Public half of a shared model."""
