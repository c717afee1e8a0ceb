"""What sections of the schema say of a value that its own type cannot refuse."""

LARGEST = 1e9  # keeps infinities and NaN out of ordinary numbers


def wrong(key: str, what: str) -> ValueError:
    """An error that says where in its table it is, in msgspec's own words."""
    return ValueError(f"{what} - at `$.{key}`")
