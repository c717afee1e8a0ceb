"""Message limits, and numeric arrays as payload bytes."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused

# gRPC accepts 4 MiB by default; 64 KiB of that are reserved for data that a transport adds.
MAX_ENVELOPE_BYTES = 4 * 2**20 - 64 * 2**10

# Each parameter takes up to eight bytes; at least 64 KiB of an envelope are reserved for its other fields.
MAX_PARAMETERS = (MAX_ENVELOPE_BYTES - 64 * 2**10) // 8

# Maximum number of published records in one message, and maximum size of one owner's certificate in bytes.
MAX_RECORDS = 4096
MAX_CREDENTIAL_BYTES = 4096


MAX_COUNT = 2**53
"""Maximum value of any counter."""

_FLOAT32 = np.dtype("<f4")


def to_float32(parameters: NDArray[np.float32]) -> bytes:
    """Return float32[P] as bytes."""
    return parameters.astype(_FLOAT32).tobytes()


def from_float32(raw: bytes) -> NDArray[np.float32]:
    """Return float32[P], read-only, from bytes.

    Raises:
        MessageRefused: for `shape`, if the bytes are not a whole number of parameters.
    """
    if len(raw) % _FLOAT32.itemsize:
        raise MessageRefused("shape", "the model does not contain a whole number of parameters")
    parameters = np.frombuffer(raw, dtype=_FLOAT32).astype(np.float32)
    parameters.setflags(write=False)
    return parameters


def check_model(parameters: NDArray[np.float32], age: int, minimum: int = 1) -> None:
    """Check a model's shape and values, and its age.

    Raises:
        MessageRefused: for `shape`, if the model has fewer than `minimum` parameters or too many; for `range`, if a
            parameter is not finite or the age is out of range.
    """
    if parameters.ndim != 1 or not minimum <= parameters.size <= MAX_PARAMETERS:
        raise MessageRefused(
            "shape", f"the model has shape {parameters.shape}, but must have {minimum} to {MAX_PARAMETERS} parameters"
        )
    if not np.isfinite(parameters).all():
        raise MessageRefused("range", "the model contains a NaN or an infinity")
    if not 0 <= age <= MAX_COUNT:
        raise MessageRefused("range", "the model age is out of range")
