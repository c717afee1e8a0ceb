"""Learning by secure sums: the protocol of a cell as a state machine, for every family that sums in cells."""
