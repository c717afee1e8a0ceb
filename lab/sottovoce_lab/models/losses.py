"""Loss functions with their derivatives with respect to the scores, and predictions from scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sottovoce_lab.models.tape import Tape, Value


@dataclass(frozen=True, slots=True)
class LossValues:
    """The loss over a batch, and its derivatives.

    Attributes:
        losses: the loss per example, real[B].
        slopes: the derivatives of each example's loss with respect to its scores, real[B, outputs].
    """

    losses: Value
    slopes: Value


Loss = Callable[[Tape, Value, Value, int], LossValues]
"""Takes a tape, scores real[B, outputs], labels int64[B] (for a regression, targets real[B]) and classes."""


def outputs(loss: str, classes: int) -> int:
    """Return the number of scores per example that a loss requires.

    Raises:
        ValueError: if the loss does not support this number of classes; the message begins with the key to change.
    """
    if loss == "binary" and classes != 2:
        raise ValueError(f"loss: binary requires exactly 2 classes, not {classes}")
    if classes == 1 and loss != "squared":
        raise ValueError(f"loss: a regression (classes = 1) requires the loss squared, not {loss}")
    return 1 if loss == "binary" or (loss == "hinge" and classes == 2) else classes


def predictions(tape: Tape, scores: Value, classes: int, width: int) -> Value:
    """Record the predictions for scores: labels int64[B], or in a regression the scores themselves, real[B].

    With one score per example, a score of exactly 0 means class 0.

    Args:
        tape: the tape on which to record operations.
        scores: the examples' scores, real[B, width].
        classes: the number of classes in the model.
        width: the number of scores per example; see `outputs`.
    """
    if classes == 1:
        return tape.reshape(scores, -1)
    if width == 1:
        return tape.cast(tape.reshape(tape.op("Greater", scores, tape.constant(0)), -1), np.int64)
    return tape.op("ArgMax", scores, axis=1, keepdims=0)


def _softmax(tape: Tape, scores: Value, labels: Value, classes: int) -> LossValues:
    """Record the loss -ln softmax(s)_y, in nats."""
    logarithms = tape.op("LogSoftmax", scores, axis=1)
    is_class = _class_mask(tape, labels, classes)
    losses = tape.op("Neg", _over_scores(tape, tape.op("Where", is_class, logarithms, tape.constant(0))))
    return LossValues(losses, tape.op("Sub", tape.op("Exp", logarithms), tape.cast(is_class, tape.real)))


def _binary(tape: Tape, scores: Value, labels: Value, classes: int) -> LossValues:
    """Record ln(1 + exp(-s)) for class 1 and ln(1 + exp(s)) for class 0, using |s| so that exp cannot overflow."""
    target = tape.cast(tape.reshape(labels, -1, 1), tape.real)
    softplus = tape.op("Softplus", tape.op("Neg", tape.op("Abs", scores)))
    linear = tape.op("Sub", tape.op("Relu", scores), tape.op("Mul", scores, target))
    return LossValues(
        tape.reshape(tape.op("Add", linear, softplus), -1), tape.op("Sub", tape.op("Sigmoid", scores), target)
    )


def _hinge(tape: Tape, scores: Value, labels: Value, classes: int) -> LossValues:
    """Record Σ_k max(0, 1 - y_k s_k), where y_k is +1 for the class and -1 for others; two classes share one score."""
    is_class = _class_mask(tape, labels, classes, first=1 if classes == 2 else 0)
    sign = tape.op("Where", is_class, tape.constant(1), tape.constant(-1))
    margin = tape.op("Sub", tape.constant(1), tape.op("Mul", sign, scores))
    in_margin = tape.op("Greater", margin, tape.constant(0))
    return LossValues(
        _over_scores(tape, tape.op("Relu", margin)),
        tape.op("Where", in_margin, tape.op("Neg", sign), tape.constant(0)),
    )


def _squared(tape: Tape, scores: Value, labels: Value, classes: int) -> LossValues:
    """Record ‖s - y‖² / 2, where y is the target in a regression, and elsewhere 1 for the class and 0 for others."""
    target = tape.reshape(labels, -1, 1) if classes == 1 else tape.cast(_class_mask(tape, labels, classes), tape.real)
    error = tape.op("Sub", scores, target)
    half_squares = tape.op("Mul", tape.op("Mul", error, error), tape.constant(0.5))
    return LossValues(_over_scores(tape, half_squares), error)


LOSSES: Mapping[str, Loss] = {"softmax": _softmax, "binary": _binary, "hinge": _hinge, "squared": _squared}


def _class_mask(tape: Tape, labels: Value, classes: int, first: int = 0) -> Value:
    """Record a one-hot mask of each example's class, bool[B, classes - first]; all False for an invalid label."""
    class_numbers = tape.constant(np.arange(first, classes), np.int64)
    return tape.op("Equal", tape.reshape(labels, -1, 1), class_numbers)


def _over_scores(tape: Tape, values: Value) -> Value:
    return tape.op("ReduceSum", values, tape.integers(1), keepdims=0)
