"""Simulations, comparisons, recommendations and estimators, on top of the testbed and the auditor."""
