"""The mean of one vector per device."""
