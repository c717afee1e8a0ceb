"""Model declarations: small, readable TOML files."""

import tomllib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.facts import MAX_PARAMETERS

from sottovoce_lab.models.layers.layer import Count, Shape, format_shape
from sottovoce_lab.models.layers.network import Chain
from sottovoce_lab.models.layers.parser import describe_table_error, parse_layers
from sottovoce_lab.models.losses import outputs

_MAX_NUMBERS = 2**25
_MAX_TENSORS = 4096
_MAX_CHARACTERS = 65_536


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    input: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=3)]
    classes: Count
    loss: Literal["softmax", "binary", "hinge", "squared"]
    layers: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A parsed and validated model declaration.

    Attributes:
        name: the model's name.
        classes: the number of classes, with labels 0 … classes - 1; 1 for a regression.
        loss: the name of the loss function.
        network: the model's layers with their names and shapes.
        text: the file's text.
    """

    name: str
    classes: int
    loss: Literal["softmax", "binary", "hinge", "squared"]
    network: Chain
    text: str

    @property
    def features(self) -> int:
        """The number d of features. An example's features are the network's input, flattened in C order."""
        return prod(self.network.input)

    @property
    def outputs(self) -> int:
        """The number of scores per example."""
        return outputs(self.loss, self.classes)


def read_declaration(path: Path) -> Declaration:
    """Read and parse a declaration file.

    Raises:
        ConfigError: if the file does not exist or is not a valid declaration.
    """
    try:
        return parse_declaration(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the file cannot be read: {getattr(error, 'strerror', None) or error}") from error


def parse_declaration(text: str, file: str) -> Declaration:
    """Parse a declaration.

    Args:
        text: the declaration in TOML.
        file: the file path, for error messages.

    Raises:
        ConfigError: if the text is not a valid declaration; the message names the offending layer and key.
    """
    try:
        return _declaration(text)
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise ConfigError(f"{file}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: the tables are nested too deeply: reduce the nesting") from error


def _declaration(source: str) -> Declaration:
    try:
        declared = msgspec.convert(tomllib.loads(source), _File)
    except msgspec.ValidationError as error:
        raise ValueError(describe_table_error(error)) from error
    network = parse_layers(declared.layers, declared.input)
    expected: Shape = (outputs(declared.loss, declared.classes),)
    if network.output != expected:
        raise ValueError(
            f"layer {len(declared.layers)}: the last layer has output shape {format_shape(network.output)}, "
            f"but {declared.loss} with classes = {declared.classes} requires {format_shape(expected)}"
        )
    parameters = network.parameters
    sizes = {
        "characters": (len(source), _MAX_CHARACTERS),
        "parameter tensors": (len(parameters), _MAX_TENSORS),
        "parameters": (sum(parameter.size for parameter in parameters), MAX_PARAMETERS),
        "numbers per example in one tensor": (max(map(prod, (network.input, *network.shapes))), _MAX_NUMBERS),
    }
    for name, (size, maximum) in sizes.items():
        if not 1 <= size <= maximum:
            raise ValueError(
                f"layers: the model has {size} {name}, which must be between 1 and {maximum}: change its layers"
            )
    return Declaration(declared.name, declared.classes, declared.loss, network, source)
