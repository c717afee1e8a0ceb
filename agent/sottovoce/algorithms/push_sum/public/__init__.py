"""State machine and messages of push-sum SGD, which have no access to records."""
