"""The public half of contributions."""
