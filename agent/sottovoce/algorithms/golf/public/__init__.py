"""The public half of golf."""
