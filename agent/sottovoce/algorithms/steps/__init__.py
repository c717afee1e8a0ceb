"""Private steps: what all learners have in common that step along noised sums."""
