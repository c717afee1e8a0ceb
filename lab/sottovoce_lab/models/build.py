"""Build the graph that a device trains with, and the graph that only makes predictions, from a declaration."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import ModelProto, helper
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.facts import KEY, GraphFacts, ParameterFacts, write_facts

from sottovoce_lab.models.clipping import Contribution, clipped_sum
from sottovoce_lab.models.declaration import Declaration
from sottovoce_lab.models.losses import LOSSES, predictions
from sottovoce_lab.models.tape import Tape, Value

CHUNK_BYTES = 2**24
"""Approximate maximum total size, in bytes, of all tensors in one call of the graph."""
MAX_EXAMPLES = 64
"""Maximum number of examples per call."""
MAX_POSITIONS = 1024
"""Maximum product of the number of examples and the number of positions in their factored gradients, per call."""


def build_graph(
    declaration: Declaration,
    real: DTypeLike = np.float32,
    *,
    weights: NDArray[np.floating[Any]] | None = None,
    frozen: int = 0,
) -> ModelProto:
    """Build the graph that computes the loss, the predictions and the clipped gradient sum of a batch.

    The inputs are `parameters` real[P], `features` real[B, d], `labels` int64[B] (for a regression, targets real[B]),
    `mask` bool[B] and `clip` float64[]. The outputs are `loss` float64[], `predictions` int64[B] (for a regression,
    real[B]) and `gradient_sum` float64[P]. The graph's metadata contain everything else that a device needs. Equal
    declarations produce identical bytes.

    Args:
        declaration: the declaration of the model to build.
        real: float32 for devices, or float64 for comparing gradients with finite differences.
        weights: public weights of all tensors in the declaration, with which training starts; None to start from each
            tensor's law.
        frozen: the number of tensors, from the first, that are constants: neither trained nor in `parameters`.
    """
    tape = Tape(real)
    constants, tensors = declaration.network.parameters[:frozen], declaration.network.parameters[frozen:]
    size, frozen_size = (sum(tensor.size for tensor in part) for part in (tensors, constants))
    flat = tape.input("parameters", tape.real, [size])
    features = tape.input("features", tape.real, ["B", declaration.features])
    target = tape.real if declaration.classes == 1 else np.int64
    labels = tape.input("labels", target, ["B"])
    mask = tape.input("mask", np.bool_, ["B"])
    clip = tape.input("clip", np.float64, [])

    examples = _reshape_features(tape, features, declaration)
    values = _split_parameters(tape, flat, tensors)
    if weights is not None and frozen:
        values |= _constants(tape, constants, weights[:frozen_size])
    scores, pull_back = declaration.network.apply(tape, examples, values)
    loss_values = LOSSES[declaration.loss](tape, scores, labels, declaration.classes)
    contributions = pull_back(loss_values.slopes)[1][frozen:]  # one for each tensor, in the same order
    losses = tape.op("Where", mask, tape.cast(loss_values.losses, np.float64), tape.constant(0, np.float64))
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
        parameters=tensors,
        declaration=declaration.text,
        weights=b"" if weights is None else weights.astype("<f4").tobytes(),
    )
    helper.set_model_props(model, {KEY: write_facts(facts)})
    return model


def graph_bytes(declaration: Declaration, weights: NDArray[np.floating[Any]] | None = None, frozen: int = 0) -> bytes:
    """Return the bytes of the graph file for a declaration; see `build_graph`."""
    return build_graph(declaration, weights=weights, frozen=frozen).SerializeToString(deterministic=True)


def build_forward(declaration: Declaration, parameters: NDArray[np.float64]) -> ModelProto:
    """Build an ordinary model for prediction that includes its parameters.

    The input is `features` float32[B, d]. The outputs are `scores` float32[B, outputs] and `predictions`, as in
    `build`.

    Args:
        declaration: the model's declaration.
        parameters: the model's parameters, float64[P].

    Raises:
        ConfigError: if the number of parameters is wrong.
    """
    tensors = declaration.network.parameters
    sizes = [tensor.size for tensor in tensors]
    if parameters.shape != (sum(sizes),):
        raise ConfigError(
            f"model {declaration.name} has {sum(sizes)} parameters, not {parameters.size}: specify the parameters of "
            "this model"
        )
    tape = Tape()
    features = tape.input("features", tape.real, ["B", declaration.features])
    weights = _constants(tape, tensors, parameters)
    scores, _ = declaration.network.apply(tape, _reshape_features(tape, features, declaration), weights)
    predicted = predictions(tape, scores, declaration.classes, declaration.outputs)
    return tape.model(
        [
            ("scores", scores, tape.real, ["B", declaration.outputs]),
            ("predictions", predicted, tape.real if declaration.classes == 1 else np.int64, ["B"]),
        ]
    )


def _reshape_features(tape: Tape, features: Value, declaration: Declaration) -> Value:
    shape = declaration.network.input
    return features if len(shape) == 1 else tape.reshape(features, -1, *shape)


def _constants(tape: Tape, tensors: Sequence[ParameterFacts], values: NDArray[np.floating[Any]]) -> dict[str, Value]:
    """Record tensors whose values, one vector for all of them, are part of the file."""
    parts = np.split(values, np.cumsum([tensor.size for tensor in tensors])[:-1])
    return {
        tensor.name: tape.constant(part.reshape(tensor.shape), name=tensor.name)
        for tensor, part in zip(tensors, parts, strict=True)
    }


def _split_parameters(tape: Tape, flat: Value, tensors: Sequence[ParameterFacts]) -> dict[str, Value]:
    """Split the flat parameter vector into named tensors."""
    sizes = tape.integers(*(tensor.size for tensor in tensors))
    parts = tape.ops("Split", len(tensors), flat, sizes, axis=0)
    return {tensor.name: tape.reshape(part, *tensor.shape) for tensor, part in zip(tensors, parts, strict=True)}


def _chunk(declaration: Declaration, contributions: Sequence[Contribution]) -> int:
    """Return the number of examples per call: the largest power of two within the limits, but at least 1."""
    activations = sum(prod(shape) for shape in declaration.network.shapes)
    floats = declaration.features + 2 * activations + sum(part.floats for part in contributions)
    positions = max(part.positions for part in contributions)
    maximum = min(MAX_EXAMPLES, MAX_POSITIONS // positions, CHUNK_BYTES // (4 * floats))
    return 1 << max(0, maximum.bit_length() - 1)
