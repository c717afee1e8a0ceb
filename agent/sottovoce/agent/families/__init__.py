"""One file a family of learners: from a configuration to its parts. Imported when it is the one asked for."""
