"""The private half of the gradient walk, which imports nothing else of its paper: decision 0055."""
