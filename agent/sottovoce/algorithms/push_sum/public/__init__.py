"""Public half of push-sum SGD."""
