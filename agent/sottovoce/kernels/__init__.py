"""Model steps as pure functions over arrays whose leading axis is the node."""

from sottovoce.kernels.gossip_rules import LAMBDA, RULES, SLOPES, Slope, UpdateRule, merge
from sottovoce.kernels.gradient_walk import descend, descents
from sottovoce.kernels.kernel import MOST_SUMMED, SAFETY, Kernel, Model
from sottovoce.kernels.least_squares import LeastSquares
from sottovoce.kernels.linear import OneVsAll
from sottovoce.kernels.one_vs_all import copies, decide, predict, scores, targets
from sottovoce.kernels.per_example import gradients_at
from sottovoce.kernels.registry import kernel_named
from sottovoce.kernels.ridge import ridge
from sottovoce.kernels.softmax import Softmax

__all__ = [
    "LAMBDA",
    "MOST_SUMMED",
    "RULES",
    "SAFETY",
    "SLOPES",
    "Kernel",
    "LeastSquares",
    "Model",
    "OneVsAll",
    "Slope",
    "Softmax",
    "UpdateRule",
    "copies",
    "decide",
    "descend",
    "descents",
    "gradients_at",
    "kernel_named",
    "merge",
    "predict",
    "ridge",
    "scores",
    "targets",
]
