"""Model steps as pure functions over arrays whose leading axis is the node.

The parts that every vault needs are here, with the usual model; another model's arithmetic is imported from its own
module.
"""

from sottovoce.kernels.kernel import MAX_SUMMED, SAFETY, Kernel, Model
from sottovoce.kernels.per_example import gradients_at
from sottovoce.kernels.registry import kernel_named
from sottovoce.kernels.softmax import Softmax

__all__ = ["MAX_SUMMED", "SAFETY", "Kernel", "Model", "Softmax", "gradients_at", "kernel_named"]
