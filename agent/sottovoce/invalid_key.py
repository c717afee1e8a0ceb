"""Errors of configuration values that a value's own type cannot refuse."""

LARGEST = 1e9  # keeps infinities and NaN out of ordinary numbers


def invalid_key(key: str, what: str) -> ValueError:
    """Return an error that names its key in the same form as msgspec's own errors."""
    return ValueError(f"{what} - at `$.{key}`")
