"""Errors of configuration values that a value's own type cannot refuse."""

LARGEST = 1e9  # keeps infinities and NaN out of ordinary numbers


def invalid_key(key: str, what: str) -> ValueError:
    """An error that says where in its table it is, in msgspec's own words."""
    return ValueError(f"{what} - at `$.{key}`")
