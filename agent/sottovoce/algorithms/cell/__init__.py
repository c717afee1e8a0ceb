"""Learning by secure sums: the protocol of a cell as a state machine, for whichever family sums in cells."""
