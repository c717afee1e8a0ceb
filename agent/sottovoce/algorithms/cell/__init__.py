"""Secure sums: the cell protocol as a state machine, shared by every family that computes sums in cells."""
