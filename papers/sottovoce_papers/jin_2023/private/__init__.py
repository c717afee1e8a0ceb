"""The private half of chains of steps, which imports nothing else of its paper: decision 0055."""
