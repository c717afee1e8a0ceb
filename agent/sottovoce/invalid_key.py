"""Errors for invalid configuration values that the value's type cannot reject."""

LARGEST = 1e9  # upper bound that excludes infinities and NaN from ordinary numbers


def invalid_key(key: str, problem: str) -> ValueError:
    """Return an error that identifies the key in the same format as msgspec's errors."""
    return ValueError(f"{problem} - at `$.{key}`")
