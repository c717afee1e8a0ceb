"""The algorithm `average`: the mean of one vector per device."""
