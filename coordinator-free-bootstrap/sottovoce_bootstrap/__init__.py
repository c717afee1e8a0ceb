"""Finding peers without a coordinator."""
