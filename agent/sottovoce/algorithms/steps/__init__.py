"""Private steps, which all learners that step along noisy sums have in common."""
