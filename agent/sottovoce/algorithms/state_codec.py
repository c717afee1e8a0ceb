"""The interface that every learner's state codec implements."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class StateCodec(Protocol):
    """Converts a learner's states to bytes and back."""

    def encode(self, state: Any) -> bytes:
        """Encode the part of the state that must survive a restart."""
        ...

    def decode(self, raw: bytes) -> Any:
        """Decode a state.

        Raises:
            DecodeError, ValueError: if the state is corrupt or belongs to a different model; the message says which.
        """
        ...


@runtime_checkable
class PartsCodec(Protocol):
    """A state codec whose states consist of parts that change independently, so that a commit writes few of them."""

    def encode_parts(self, state: Any) -> Mapping[str, bytes]:
        """Encode the state in parts by name, of which one has an empty name.

        StateCodec.decode decodes the part without a name, followed by all others.
        """
        ...


class ModelSizeMismatch(ValueError):
    """Raised when the size of a saved model differs from the configured size."""

    def __init__(self, actual: int, expected: int) -> None:
        super().__init__(f"the saved model has {actual} parameters, but the configured model has {expected}")


def saved_model(raw: bytes, template: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a saved model in the shape of `template`, decoded from little-endian float64 values.

    Raises:
        ValueError: if the model has a different size, or contains a NaN or an infinity.
    """
    parameters = np.frombuffer(raw, dtype="<f8").astype(np.float64)
    if parameters.size != template.size:
        raise ModelSizeMismatch(parameters.size, template.size)
    if not np.isfinite(parameters).all():
        raise ValueError("the saved model contains a NaN or an infinity")
    return parameters.reshape(template.shape)
