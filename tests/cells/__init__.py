"""Secure sums against an attacker who leads, is the network, and has as many members as are promised."""
