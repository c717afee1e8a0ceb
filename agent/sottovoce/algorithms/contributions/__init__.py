"""Contributions: what each device has put into a model, signed by itself, and a model that few of them can bend."""
