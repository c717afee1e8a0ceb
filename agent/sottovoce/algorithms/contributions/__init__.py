"""Contributions: one signed part per device, combined into a model that a few dishonest devices cannot skew."""
