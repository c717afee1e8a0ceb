"""The public half of private steps."""
