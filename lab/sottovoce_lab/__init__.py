"""Fleets on a workstation: simulations, testbeds, the papers' figures, and the audit. No device runs any of it."""
