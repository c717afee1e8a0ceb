"""Arrays of numbers as the bytes of a payload, and the limits on a peer's numbers."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_PARAMETERS

MAX = 2**53
"""Largest value of any counter."""

_FLOAT32 = np.dtype("<f4")


def to_float32(parameters: NDArray[np.float32]) -> bytes:
    """Return float32[P] as bytes."""
    return parameters.astype(_FLOAT32).tobytes()


def from_float32(raw: bytes) -> NDArray[np.float32]:
    """Return float32[P], read-only, from bytes.

    Raises:
        MessageRefused: for `shape`: not a whole number of parameters.
    """
    if len(raw) % _FLOAT32.itemsize:
        raise MessageRefused("shape", "the model does not contain a whole number of parameters")
    parameters = np.frombuffer(raw, dtype=_FLOAT32).astype(np.float32)
    parameters.setflags(write=False)
    return parameters


def check_model(parameters: NDArray[np.float32], age: int, least: int = 1) -> None:
    """Refuse an impossible model.

    Raises:
        MessageRefused: for `shape` (fewer than `least` parameters, or too many) or `range`.
    """
    if parameters.ndim != 1 or not least <= parameters.size <= MAX_PARAMETERS:
        raise MessageRefused("shape", f"the model has the shape {parameters.shape}, not {least} to {MAX_PARAMETERS}")
    if not np.isfinite(parameters).all():
        raise MessageRefused("range", "the model holds a NaN or an infinity")
    if not 0 <= age <= MAX:
        raise MessageRefused("range", "the age of the model is beyond its limit")
