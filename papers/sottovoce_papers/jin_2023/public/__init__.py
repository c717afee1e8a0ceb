"""State machine and messages of a shared model, which have no access to records."""
