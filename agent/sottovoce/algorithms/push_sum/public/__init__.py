"""The public half of push-sum SGD."""
