"""Metadata of a graph file: everything a device must know about a model to train it."""

from math import prod
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from sottovoce.errors import ConfigError

KEY = "sottovoce.model"
"""Key of the file's metadata that holds the facts, as JSON."""

MAX_PARAMETERS = 2**25
SUM_ERROR = 2.0**-12
"""Largest error, as a multiple of the clip, of a computed sum over at most MAX_SUMMED examples."""

_Count = Annotated[int, Meta(ge=1, le=2**25)]


class ParameterFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """One named tensor of the flat parameter vector, in C order.

    Attributes:
        name: for example `conv1.weight`.
        shape: shape of the tensor.
        law: law of its initial values: `uniform` in ±value, or `constant`.
        value: see `law`.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,127}$")]
    shape: Annotated[tuple[_Count, ...], Meta(min_length=1, max_length=8)]
    law: Literal["uniform", "constant"]
    value: Annotated[float, Meta(ge=0, le=1e6)]

    @property
    def size(self) -> int:
        """Number of values in the tensor."""
        return prod(self.shape)


class GraphFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """A model, as its graph file describes it.

    Attributes:
        version: version of this description, 1.
        name: name of the model.
        features: columns of x, d, without a target.
        classes: labels are 0 … classes - 1; 1 for a regression.
        loss: name of the loss.
        chunk: examples that one call of the graph takes; a device pads a smaller number.
        parameters: named tensors, in the order of the flat vector.
        declaration: text of the file from which the graph was built.
    """

    version: Literal[1]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    features: _Count
    classes: Annotated[int, Meta(ge=1, le=65_536)]
    loss: Literal["softmax", "binary", "hinge", "squared"]
    chunk: Annotated[int, Meta(ge=1, le=256)]
    parameters: Annotated[tuple[ParameterFacts, ...], Meta(min_length=1, max_length=4096)]
    declaration: Annotated[str, Meta(max_length=65_536)]

    @property
    def size(self) -> int:
        """P, the length of the flat parameter vector."""
        return sum(parameter.size for parameter in self.parameters)


def read_facts(text: str | bytes, file: str) -> GraphFacts:
    """Return the facts in a graph file's metadata.

    Args:
        text: JSON.
        file: name of the graph file, for the error.

    Raises:
        ConfigError: if it is not such a description.
    """
    try:
        facts = msgspec.json.decode(text, type=GraphFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: its description cannot be read ({error}); make it with `sottovoce model build`"
        ) from error
    names = [parameter.name for parameter in facts.parameters]
    if len(set(names)) != len(names):
        raise ConfigError(f"{file}: names a parameter twice; make it with `sottovoce model build`")
    if facts.size > MAX_PARAMETERS:
        raise ConfigError(f"{file}: has {facts.size} parameters; at most {MAX_PARAMETERS} are supported")
    return facts


def write_facts(facts: GraphFacts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts).decode()
