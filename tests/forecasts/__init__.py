"""Forecasts of a home without a fleet: the fit of the public model, and its error on homes that it has not seen."""
