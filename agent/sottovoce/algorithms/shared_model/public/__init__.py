"""The public half of a shared model."""
