"""State machine and messages of learning by contributions, which have no access to records."""
