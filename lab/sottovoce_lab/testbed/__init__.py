"""Fleet on this machine: planned, run as separate processes or in one, measured from outside, and reported."""
