"""Model steps as pure functions over arrays whose leading axis is the node.

What every vault needs is here, and the usual model; another model's own arithmetic is imported from where it stands, by
what uses it.
"""

from sottovoce.kernels.kernel import MOST_SUMMED, SAFETY, Kernel, Model
from sottovoce.kernels.per_example import gradients_at
from sottovoce.kernels.registry import kernel_named
from sottovoce.kernels.softmax import Softmax

__all__ = ["MOST_SUMMED", "SAFETY", "Kernel", "Model", "Softmax", "gradients_at", "kernel_named"]
