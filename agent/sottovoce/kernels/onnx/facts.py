"""Metadata of a graph file: everything a device must know about a model in order to train it."""

from math import prod
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from sottovoce.errors import ConfigError

KEY = "sottovoce.model"
"""Metadata key in the file under which the facts are stored, as JSON."""

MAX_PARAMETERS = 2**25
SUM_ERROR = 2.0**-12
"""Largest error, as a multiple of the clip, of a computed sum over at most MAX_SUMMED examples."""

_Count = Annotated[int, Meta(ge=1, le=2**25)]


class ParameterFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """One named tensor of the flat parameter vector, in C order.

    Attributes:
        name: name of the tensor, for example `conv1.weight`.
        shape: shape of the tensor.
        law: distribution of the initial values: `uniform` in ±value, or `constant`.
        value: bound of the uniform distribution, or the constant; see `law`.
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
    """Description of a model, as stored in its graph file.

    Attributes:
        version: version of this description, 1.
        name: name of the model.
        features: number of columns of x, d, excluding a target.
        classes: number of classes; labels are 0 … classes - 1; 1 for a regression.
        loss: name of the loss.
        chunk: number of examples that one call of the graph accepts; a device pads a smaller chunk.
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
        """Length P of the flat parameter vector."""
        return sum(parameter.size for parameter in self.parameters)


def read_facts(text: str | bytes, file: str) -> GraphFacts:
    """Return the facts from a graph file's metadata.

    Args:
        text: the metadata, as JSON.
        file: name of the graph file, for error messages.

    Raises:
        ConfigError: if the text is not a valid description, repeats a parameter name, or has too many parameters.
    """
    try:
        facts = msgspec.json.decode(text, type=GraphFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: the model description cannot be read ({error}); build it with `sottovoce model build`"
        ) from error
    names = [parameter.name for parameter in facts.parameters]
    if len(set(names)) != len(names):
        raise ConfigError(f"{file}: a parameter name occurs twice; build it with `sottovoce model build`")
    if facts.size > MAX_PARAMETERS:
        raise ConfigError(f"{file}: the model has {facts.size} parameters; at most {MAX_PARAMETERS} are supported")
    return facts


def write_facts(facts: GraphFacts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts).decode()
