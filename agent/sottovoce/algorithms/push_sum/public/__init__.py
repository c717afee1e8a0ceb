"""Public half of push-sum SGD, which never touches records."""
