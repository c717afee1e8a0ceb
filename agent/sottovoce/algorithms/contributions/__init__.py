"""Contributions: signed parts, one from each device, and a model that few devices can bend."""
