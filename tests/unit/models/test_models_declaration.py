"""Declarations of models: their meaning, and the refusals."""

import gc
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import ConfigError
from sottovoce_lab.models.declaration import Declaration, parse_declaration, read_declaration

from tests.support.graph_runs import declared

Table = dict[str, Any]

CONV: Table = {"kind": "conv2d", "filters": 4, "kernel": 3}
FLAT: Table = {"kind": "flatten"}
SCORES: Table = {"kind": "dense", "units": 3}
RELU: Table = {"kind": "relu"}
NORM: Table = {"kind": "group-norm", "groups": 2}


def read_layers(*layers: Table, shape: tuple[int, ...] = (2, 8, 6), **head: Any) -> Declaration:
    """Read a declaration with these layers."""
    return parse_declaration(declared(list(layers), shape, **head), "model.toml")


def test_shapes_are_derived_from_layer_to_layer() -> None:
    strided = {"kind": "conv2d", "filters": 5, "kernel": [3, 2], "stride": [2, 1], "padding": [1, 0]}
    pool = {"kind": "max-pool", "kernel": 2, "stride": 1}
    model = read_layers(strided, pool, {"kind": "average-pool", "kernel": "all"}, FLAT, SCORES)
    assert model.network.shapes == ((5, 4, 5), (5, 3, 4), (5, 1, 1), (5,), (3,))
    assert (model.features, model.outputs) == (96, 3)


def test_tensors_are_numbered_by_kind_and_scope() -> None:
    block = {"kind": "residual", "layers": [CONV | {"padding": 1}, NORM], "shortcut": [CONV | {"kernel": 1}]}
    model = read_layers(CONV | {"bias": False}, NORM, block, RELU, block, FLAT, SCORES)
    names = [tensor.name for tensor in model.network.parameters]
    assert names[:3] == ["conv1.weight", "norm1.weight", "norm1.bias"]
    assert names[3:7] == ["block1.conv1.weight", "block1.conv1.bias", "block1.norm1.weight", "block1.norm1.bias"]
    assert names[7:10] == ["block1.shortcut.conv1.weight", "block1.shortcut.conv1.bias", "block2.conv1.weight"]
    assert names[-2:] == ["dense1.weight", "dense1.bias"]
    shapes = {tensor.name: tensor.shape for tensor in model.network.parameters}
    assert shapes["conv1.weight"] == (4, 2, 3, 3)
    assert shapes["dense1.weight"] == (3, 4 * 6 * 4)


def test_initial_weights_suit_the_next_activation() -> None:
    block = {"kind": "residual", "layers": [RELU, CONV | {"padding": 1}, NORM]}
    layers = [CONV, NORM, {"kind": "max-pool", "kernel": 2}, RELU, CONV | {"kernel": 1}, block, RELU, FLAT, SCORES]
    laws = {tensor.name: tensor for tensor in read_layers(*layers).network.parameters}
    assert laws["conv1.weight"].value == sqrt(6 / (2 * 9))
    assert laws["conv2.weight"].value == sqrt(6 / (4 + 4))
    assert laws["block1.conv1.weight"].value == sqrt(6 / (4 * 9))
    assert laws["dense1.weight"].value == sqrt(6 / (24 + 3))
    assert (laws["norm1.weight"].law, laws["norm1.weight"].value, laws["norm1.bias"].value) == ("constant", 1, 0)
    assert laws["conv1.bias"].value == 0


@pytest.mark.parametrize(
    "layers,message",
    [
        ([{"kind": "dense"}], r"layer 1: Object missing required field `units`"),
        ([FLAT, SCORES | {"unit": 1}], r"layer 2: Object contains unknown field `unit`"),
        ([FLAT, {"kind": "lstm"}], r"layer 2: kind: Invalid value 'lstm'"),
        ([{"filters": 3}], r"layer 1: Object missing required field `kind`"),
        ([CONV | {"filters": 0}], r"layer 1: filters: Expected `int` >= 1"),
        ([CONV | {"kernel": [3, 3, 3]}], r"layer 1: kernel: Expected `array` of length <= 2"),
        ([CONV | {"kernel": [3]}], r"layer 1: kernel: Expected `array` of length >= 2"),
        ([CONV | {"padding": -1}], r"layer 1: padding: Expected `int` >= 0"),
        ([CONV | {"kernel": 7}], r"layer 1: kernel: 7 is larger than the padded input, 6"),
        ([CONV, CONV, SCORES], r"layer 3: kind: dense requires a flat input, but its input is 4 × 4 × 2: put flatten"),
        ([FLAT, CONV], r"layer 2: kind: conv2d requires channels, height and width, but its input is 96"),
        ([FLAT, {"kind": "average-pool", "kernel": "all"}], r"layer 2: kind: average-pool requires channels"),
        ([{"kind": "max-pool", "kernel": "all"}], r"layer 1: kernel: Expected `int \| array`, got `str`"),
        ([{"kind": "max-pool", "kernel": 2, "padding": 2}], r"layer 1: padding: 2 is not less than kernel = 2"),
        ([CONV, {"kind": "group-norm", "groups": 3}], r"layer 2: groups: 3 does not divide the 4 channels"),
        ([{"kind": "residual", "layers": [CONV]}],
         r"layer 1, shortcut: the shortcut outputs 2 × 8 × 6, but `layers` outputs 4 × 6 × 4"),
        ([{"kind": "residual", "layers": [FLAT, CONV]}], r"layer 1, layer 2: kind: conv2d requires"),
        ([{"kind": "residual", "layers": [], "shortcut": [SCORES]}],
         r"layer 1, shortcut, layer 1: kind: dense requires"),
        ([FLAT, SCORES | {"units": 4}], r"layer 2: the last layer has output shape 4, but softmax .* requires 3"),
        ([FLAT, SCORES | {"units": 2**16}, SCORES | {"units": 2**16}, SCORES], r"layers: the model has \d+ param"),
        ([CONV | {"kernel": 1, "filters": 3}, {"kind": "average-pool", "kernel": "all"}, FLAT] + [RELU] * 5000,
         r"layers: the model has \d+ characters,"),
        ([*[{"kind": "layer-norm"}] * 2049, FLAT, SCORES], r"layers: the model has 4100 parameter tensors,"),
        ([CONV | {"filters": 50_000, "padding": 20}, {"kind": "average-pool", "kernel": "all"}, FLAT, SCORES],
         r"layers: the model has \d+ numbers per example in one tensor,"),
        ([], r"layers: Expected `array` of length >= 1"),
    ],
)  # fmt: skip
def test_invalid_models_are_refused(layers: list[Table], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.toml: {message}"):
        read_layers(*layers)


@pytest.mark.parametrize(
    "head,message",
    [
        ({"loss": "hinges"}, r"loss: .*'hinges'"),
        ({"loss": "binary"}, r"loss: .*2 classes.*\b3\b"),
        ({"classes": 1}, r"loss: .*squared.*softmax"),
        ({"classes": 0}, r"classes: .*`int`.*\b1\b"),
        ({"shape": (2, 0, 3)}, r"input\[1\]: .*`int`.*\b1\b"),
        ({"shape": (2, 2, 2, 2)}, r"input: .*`array`.*\b3\b"),
    ],
)
def test_invalid_losses_are_refused(head: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_layers(FLAT, SCORES, **head)


@pytest.mark.parametrize("loss,classes,units", [("hinge", 2, 1), ("binary", 2, 1), ("hinge", 3, 3), ("squared", 1, 1)])
def test_the_loss_determines_the_number_of_scores(loss: str, classes: int, units: int) -> None:
    assert read_layers(FLAT, SCORES | {"units": units}, classes=classes, loss=loss).outputs == units


def test_an_invalid_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    with pytest.raises(ConfigError, match=r"model\.toml.*read"):
        read_declaration(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"model\.toml.*read"):
        read_declaration(path)
    path.write_text("layers = [")
    with pytest.raises(ConfigError, match=r"model\.toml"):
        read_declaration(path)


def test_windows_survive_a_garbage_collection() -> None:
    """msgspec 0.22 crashes on a union of a bounded int and a tuple of two."""
    read_layers(CONV | {"kernel": [3, 3]}, {"kind": "max-pool", "kernel": [2, 1]}, FLAT, SCORES)
    gc.collect()
