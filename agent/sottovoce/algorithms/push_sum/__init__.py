"""Push-sum SGD: push-sum, and ClipD²P, which adds noise to it."""
