"""Secure sums against an attacker who is the leader, the network, and the promised number of colluding members."""
