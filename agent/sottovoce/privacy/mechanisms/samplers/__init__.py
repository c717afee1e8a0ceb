"""Exact samplers of the noise distributions."""
