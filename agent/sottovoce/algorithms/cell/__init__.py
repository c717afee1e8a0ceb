"""Learning by secure sums: the cell protocol as a state machine, for every family that computes sums in cells."""
