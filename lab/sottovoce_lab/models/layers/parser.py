"""Convert the layer tables in a declaration to layers with shapes and parameter names."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from sottovoce_lab.models.layers.activations import Flatten, Relu, Sigmoid, Tanh
from sottovoce_lab.models.layers.conv import Conv2d
from sottovoce_lab.models.layers.dense import Dense
from sottovoce_lab.models.layers.layer import Layer, LayerDeclaration, Shape, format_shape
from sottovoce_lab.models.layers.network import Chain, PlacedLayer, Residual
from sottovoce_lab.models.layers.norms import GroupNorm, LayerNorm
from sottovoce_lab.models.layers.pooling import AveragePool, MaxPool

Table = dict[str, Any]
"""A table of values as read from TOML."""


class Block(LayerDeclaration, frozen=True, tag="residual"):
    """A declared residual block: y = body(x) + shortcut(x).

    Attributes:
        layers: the body's layers.
        shortcut: the shortcut's layers; empty for the identity.
    """

    layers: tuple[Table, ...]
    shortcut: tuple[Table, ...] = ()


_Kind = AveragePool | Conv2d | Dense | Flatten | GroupNorm | LayerNorm | MaxPool | Relu | Sigmoid | Tanh


def parse_layers(
    tables: Sequence[Table], shape: Shape, *, rectified: bool = False, scope: str = "", location: str = ""
) -> Chain:
    """Parse layer tables, and return the chain of layers with shapes and parameter names.

    Args:
        tables: the layer tables, one per layer.
        shape: the first layer's input shape.
        rectified: whether a ReLU follows the last layer.
        scope: the prefix for parameter names.
        location: the position of the layers in the model, for error messages.

    Raises:
        ValueError: if a layer is invalid; the message names the layer and the reason.
    """
    count: Counter[str] = Counter()
    stages: list[PlacedLayer | Residual] = []
    layers = [_parse_layer(table, f"{location}layer {number}") for number, table in enumerate(tables, 1)]
    input_shape = shape
    for number, layer in enumerate(layers, 1):
        layer_location = f"{location}layer {number}"
        rectified_after = _is_rectified(layers[number:], last=rectified)
        if isinstance(layer, Block):
            count["block"] += 1
            stage: PlacedLayer | Residual = _build_block(
                layer, shape, rectified_after, f"{scope}block{count['block']}.", f"{layer_location}, "
            )
        else:
            count[layer.name] += 1
            stage = _place_layer(
                layer, shape, rectified_after, f"{scope}{layer.name}{count[layer.name]}.", layer_location
            )
        stages.append(stage)
        shape = stage.output
    return Chain(tuple(stages), input_shape)


def _parse_layer(table: Table, location: str) -> _Kind | Block:
    try:
        parsed: _Kind | Block = msgspec.convert(table, _Kind | Block)
        return parsed
    except msgspec.ValidationError as error:
        raise ValueError(f"{location}: {describe_table_error(error)}") from error


def describe_table_error(error: msgspec.ValidationError) -> str:
    """Return an error message that begins with the offending key in a table and points to the reference."""
    message, _, key_path = str(error).partition(" - at `$.")
    key = f"{key_path.rstrip('`')}: " if key_path else ""
    return f"{key}{message}; docs/reference/models.md lists all keys"


def _is_rectified(following: Sequence[_Kind | Block], *, last: bool) -> bool:
    """Return whether the next layer, not counting norm, pooling and flatten layers, is a ReLU."""
    for layer in following:
        if isinstance(layer, Block) or not layer.passes:
            return isinstance(layer, Relu)
    return last


def _place_layer(layer: Layer, shape: Shape, rectified: bool, prefix: str, location: str) -> PlacedLayer:
    try:
        output = layer.output(shape)
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from error
    tensors = layer.parameters(shape, rectified=rectified)
    named = tuple(msgspec.structs.replace(tensor, name=prefix + tensor.name) for tensor in tensors)
    return PlacedLayer(layer, shape, output, named)


def _build_block(block: Block, shape: Shape, rectified: bool, scope: str, location: str) -> Residual:
    body = parse_layers(block.layers, shape, rectified=rectified, scope=scope, location=location)
    shortcut = parse_layers(
        block.shortcut, shape, rectified=rectified, scope=f"{scope}shortcut.", location=f"{location}shortcut, "
    )
    if body.output != shortcut.output:
        raise ValueError(
            f"{location}shortcut: the shortcut outputs {format_shape(shortcut.output)}, "
            f"but `layers` outputs {format_shape(body.output)}: change one of them so that both shapes are equal"
        )
    return Residual(body, shortcut)
