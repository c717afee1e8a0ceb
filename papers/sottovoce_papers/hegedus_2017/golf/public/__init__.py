"""State machine and messages of golf, which have no access to unperturbed records."""
