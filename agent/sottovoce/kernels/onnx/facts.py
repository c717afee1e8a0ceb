"""The metadata in a graph file, which contains everything that a device needs to train the model."""

from math import prod
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from sottovoce.errors import ConfigError

KEY = "sottovoce.model"
"""The metadata key under which the facts are stored in the file, as JSON."""

MAX_PARAMETERS = 2**25
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
    value: Annotated[float, Meta(ge=0, le=1e6)]

    @property
    def size(self) -> int:
        """The number of values in the tensor."""
        return prod(self.shape)


class GraphFacts(Struct, frozen=True, forbid_unknown_fields=True):
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
        """The length P of the flat parameter vector."""
        return sum(parameter.size for parameter in self.parameters)


def read_facts(text: str | bytes, file: str) -> GraphFacts:
    """Return the facts from a graph file's metadata.

    Args:
        text: the metadata, as JSON.
        file: the name of the graph file, for error messages.

    Raises:
        ConfigError: if the text is not a valid description, repeats a parameter name, or declares too many parameters.
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
    return facts


def write_facts(facts: GraphFacts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts).decode()
