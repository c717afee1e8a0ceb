"""Arithmetic of private steps on public values, without access to records."""
