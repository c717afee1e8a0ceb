"""The metadata in a graph file, which contains everything that a device needs to train the model."""

from math import prod
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

KEY = "sottovoce.model"
"""The metadata key under which the facts are stored in the file, as JSON."""

MAX_PARAMETERS = 2**25
LARGEST_VALUE = 1e6
"""Maximum absolute value of an initial parameter."""
SUM_ERROR = 2.0**-12
"""Maximum error, as a multiple of the clip, in a computed sum over at most MAX_SUMMED examples."""

_Count = Annotated[int, Meta(ge=1, le=2**25)]


class ParameterFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """A named tensor in the flat parameter vector, in C order.

    Attributes:
        name: the tensor name, for example `conv1.weight`.
        shape: the tensor shape.
        law: the distribution of the initial values: `uniform` in ±value, or `constant`.
        value: the bound of the uniform distribution, or the constant; see `law`.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,127}$")]
    shape: Annotated[tuple[_Count, ...], Meta(min_length=1, max_length=8)]
    law: Literal["uniform", "constant"]
    value: Annotated[float, Meta(ge=0, le=LARGEST_VALUE)]

    @property
    def size(self) -> int:
        """The number of values in the tensor."""
        return prod(self.shape)


class GraphFacts(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model description, as stored in the graph file.

    Attributes:
        version: the version of this format, 1.
        name: the model name.
        features: the number of columns of x, d, excluding a target.
        classes: the number of classes; labels are 0 … classes - 1; 1 for a regression.
        loss: the name of the loss.
        chunk: how many examples one call of the graph accepts; a device pads a smaller chunk.
        parameters: the named tensors, in the order of the flat vector.
        declaration: the text of the file that the graph was built from.
        weights: public weights, little-endian float32, of all tensors in the declaration. The last P are the initial
            parameters; those before them are frozen: they are constants in the graph, which is not trained in them. If
            empty, nothing is frozen, and the initial values follow each tensor's law.
    """

    version: Literal[1]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    features: _Count
    classes: Annotated[int, Meta(ge=1, le=65_536)]
    loss: Literal["softmax", "binary", "hinge", "squared"]
    chunk: Annotated[int, Meta(ge=1, le=256)]
    parameters: Annotated[tuple[ParameterFacts, ...], Meta(min_length=1, max_length=4096)]
    declaration: Annotated[str, Meta(max_length=65_536)]
    weights: bytes = b""

    @property
    def size(self) -> int:
        """The length P of the flat parameter vector."""
        return sum(parameter.size for parameter in self.parameters)

    @property
    def all_weights(self) -> NDArray[np.float32] | None:
        """The public weights, first the frozen ones, float32[≥ P]; None if there are none."""
        return np.frombuffer(self.weights, dtype="<f4") if self.weights else None

    @property
    def frozen_weights(self) -> NDArray[np.float32]:
        """The weights that are constants in the graph, float32[F]; empty if every layer is trained."""
        weights = np.frombuffer(self.weights, dtype="<f4")
        return weights[: max(0, len(weights) - self.size)]


def read_facts(text: str | bytes, file: str) -> GraphFacts:
    """Return the facts from a graph file's metadata.

    Args:
        text: the metadata, as JSON.
        file: the name of the graph file, for error messages.

    Raises:
        ConfigError: if the text is not a valid description, repeats a parameter name, declares too many parameters, or
            has weights that do not fit them.
    """
    try:
        facts = msgspec.json.decode(text, type=GraphFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: the model description cannot be read ({error}): build the graph file with `sottovoce model build`"
        ) from error
    names = [parameter.name for parameter in facts.parameters]
    if len(set(names)) != len(names):
        raise ConfigError(f"{file}: a parameter name occurs twice: build the graph file with `sottovoce model build`")
    if facts.size > MAX_PARAMETERS:
        raise ConfigError(f"{file}: the model has {facts.size} parameters; at most {MAX_PARAMETERS} are supported")
    _check_weights(facts, file)
    return facts


def write_facts(facts: GraphFacts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts).decode()


def _check_weights(facts: GraphFacts, file: str) -> None:
    if len(facts.weights) % 4:
        raise ConfigError(f"{file}: the initial weights are cut off: build the graph file with `sottovoce model build`")
    weights = facts.all_weights
    if weights is None:
        return
    if len(weights) < facts.size:
        raise ConfigError(
            f"{file}: there are {len(weights)} initial weights for {facts.size} parameters: build the graph file with "
            "`sottovoce model build`"
        )
    if not (np.abs(weights) <= LARGEST_VALUE).all():
        raise ConfigError(f"{file}: an initial weight is not finite, or above {LARGEST_VALUE:g}: train the model again")
