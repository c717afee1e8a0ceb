"""Private steps: the common part of all learners that step along noisy sums."""
