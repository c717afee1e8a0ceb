"""Live meter feeds: from messages of a home's broker to windows of energy, which are all that is kept."""
