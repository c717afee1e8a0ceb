"""The `average` algorithm, which computes the mean of one vector per device."""
