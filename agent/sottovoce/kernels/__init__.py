"""Model steps as pure functions over arrays whose leading axis is the node."""

from sottovoce.kernels.kernel import Kernel
from sottovoce.kernels.softmax import Softmax

__all__ = ["Kernel", "Softmax"]
