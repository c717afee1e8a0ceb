"""Decentralised SGD with momentum, in rounds."""
