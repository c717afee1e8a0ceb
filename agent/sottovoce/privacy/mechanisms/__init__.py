"""Mechanisms, which add calibrated noise to values that the vault computed from records."""
