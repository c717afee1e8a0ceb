"""Public half of golf."""
