"""Models and update rules as pure functions over arrays whose leading axis indexes nodes.

This package exports the default model and the parts that every vault needs. Import other models from their own modules.
"""

from sottovoce.kernels.kernel import MAX_SUMMED, SAFETY, Kernel, Model
from sottovoce.kernels.per_example import per_example_gradients
from sottovoce.kernels.registry import kernel_named
from sottovoce.kernels.softmax import Softmax

__all__ = ["MAX_SUMMED", "SAFETY", "Kernel", "Model", "Softmax", "kernel_named", "per_example_gradients"]
