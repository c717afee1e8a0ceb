"""Conversion of a declaration to the graph that a device trains with, and to a graph that only predicts."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import ModelProto, helper
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.facts import KEY, GraphFacts, write_facts

from sottovoce_lab.models.clipping import Contribution, clipped_sum
from sottovoce_lab.models.declaration import Declaration
from sottovoce_lab.models.layers.network import Weights
from sottovoce_lab.models.losses import LOSSES, predictions
from sottovoce_lab.models.tape import Tape, Value

CHUNK_BYTES = 2**24
"""Approximate size of all tensors in one call of the graph, in bytes."""
MAX_EXAMPLES = 64
"""Maximum number of examples in one call."""
MAX_PLACES = 1024
"""Largest number of examples times places of a call's factored gradients."""


def build(declaration: Declaration, real: DTypeLike = np.float32) -> ModelProto:
    """Build the graph whose outputs are a batch's loss, its predictions and the sum of its clipped gradients.

    Inputs are `parameters` real[P], `features` real[B, d], `labels` int64[B] (of a regression: targets real[B]), `mask`
    bool[B] and `clip` float64[]; outputs are `loss` float64[], `predictions` int64[B] (of a regression: real[B]) and
    `gradient_sum` float64[P]. The graph's metadata contain everything else that a device needs. Equal declarations give
    equal bytes.

    Args:
        declaration: declaration of the model to build.
        real: float32, for devices; float64 to compare with finite differences.
    """
    tape = Tape(real)
    size = sum(tensor.size for tensor in declaration.network.parameters)
    flat = tape.input("parameters", tape.real, [size])
    features = tape.input("features", tape.real, ["B", declaration.features])
    target = tape.real if declaration.classes == 1 else np.int64
    labels = tape.input("labels", target, ["B"])
    mask = tape.input("mask", np.bool_, ["B"])
    clip = tape.input("clip", np.float64, [])

    scores, back = declaration.network.apply(
        tape, _shaped(tape, features, declaration), _split_parameters(tape, flat, declaration)
    )
    measured = LOSSES[declaration.loss](tape, scores, labels, declaration.classes)
    _, contributions = back(measured.slopes)
    losses = tape.op("Where", mask, tape.cast(measured.losses, np.float64), tape.constant(0, np.float64))
    model = tape.model(
        [
            ("loss", tape.op("ReduceSum", losses, keepdims=0), np.float64, []),
            ("predictions", predictions(tape, scores, declaration.classes, declaration.outputs), target, ["B"]),
            ("gradient_sum", clipped_sum(tape, contributions, mask, clip), np.float64, [size]),
        ]
    )
    facts = GraphFacts(
        version=1,
        name=declaration.name,
        features=declaration.features,
        classes=declaration.classes,
        loss=declaration.loss,
        chunk=_chunk(declaration, contributions),
        parameters=declaration.network.parameters,
        declaration=declaration.text,
    )
    helper.set_model_props(model, {KEY: write_facts(facts)})
    return model


def graph_bytes(declaration: Declaration) -> bytes:
    """Return the graph file for a declaration. See `build`."""
    return build(declaration).SerializeToString(deterministic=True)


def build_forward(declaration: Declaration, parameters: NDArray[np.float64]) -> ModelProto:
    """Build an ordinary model that predicts, with its parameters inside.

    Its input is `features` float32[B, d]; its outputs are `scores` float32[B, outputs] and `predictions`, as in
    `build`.

    Args:
        declaration: declaration of the model.
        parameters: parameters of the model, float64[P].

    Raises:
        ConfigError: if `parameters` does not have the model's number of parameters.
    """
    tensors = declaration.network.parameters
    sizes = [tensor.size for tensor in tensors]
    if parameters.shape != (sum(sizes),):
        raise ConfigError(
            f"{declaration.name}: has {sum(sizes)} parameters, not {parameters.size}: give the parameters of this model"
        )
    tape = Tape()
    features = tape.input("features", tape.real, ["B", declaration.features])
    parts = np.split(parameters, np.cumsum(sizes)[:-1])
    weights = {
        tensor.name: tape.constant(part.reshape(tensor.shape), name=tensor.name)
        for tensor, part in zip(tensors, parts, strict=True)
    }
    scores, _ = declaration.network.apply(tape, _shaped(tape, features, declaration), weights)
    predicted = predictions(tape, scores, declaration.classes, declaration.outputs)
    return tape.model(
        [
            ("scores", scores, tape.real, ["B", declaration.outputs]),
            ("predictions", predicted, tape.real if declaration.classes == 1 else np.int64, ["B"]),
        ]
    )


def _shaped(tape: Tape, features: Value, declaration: Declaration) -> Value:
    shape = declaration.network.input
    return features if len(shape) == 1 else tape.reshape(features, -1, *shape)


def _split_parameters(tape: Tape, flat: Value, declaration: Declaration) -> Weights:
    """Split the flat parameter vector into tensors."""
    tensors = declaration.network.parameters
    sizes = tape.integers(*(tensor.size for tensor in tensors))
    parts = tape.ops("Split", len(tensors), flat, sizes, axis=0)
    return {tensor.name: tape.reshape(part, *tensor.shape) for tensor, part in zip(tensors, parts, strict=True)}


def _chunk(declaration: Declaration, contributions: Sequence[Contribution]) -> int:
    """Return the number of examples in one call: a power of two."""
    passed = sum(prod(shape) for shape in declaration.network.shapes)
    floats = declaration.features + 2 * passed + sum(part.floats for part in contributions)
    places = max(part.places for part in contributions)
    most = min(MAX_EXAMPLES, MAX_PLACES // places, CHUNK_BYTES // (4 * floats))
    return 1 << max(0, most.bit_length() - 1)
