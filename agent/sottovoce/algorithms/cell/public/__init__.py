"""The public half."""
