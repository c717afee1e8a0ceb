"""Sottovoce: devices that learn together by gossip and say only what differential privacy lets them say."""

__version__ = "0.2.0"

__all__ = ["__version__"]
