"""Contributions: one signed part per device, and a model that a small number of devices cannot skew."""
