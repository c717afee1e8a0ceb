"""The mean of a vector a device."""
