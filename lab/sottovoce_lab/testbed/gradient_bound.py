"""ConstD²P's bound G for testbeds: the longest gradient in five runs without any privacy (AdaD²P 2024, Section 5).

The runs use push-sum SGD as in the paper, on a network that mixes instantly: each step uses as many random records as
there are devices. The runs read all of the fleet's records, and no budget is charged for their result.
"""

import numpy as np
from numpy.typing import NDArray
from sottovoce.kernels import Kernel

RUNS = 5


def longest_gradient(
    kernel: Kernel,
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    agents: int,
    steps: int,
    step_size: float,
    seed: int,
) -> float:
    """Return the L2 norm of the longest single-record gradient in any step of any run.

    Args:
        kernel: the model.
        features: the transformed features of all devices together, float64[n, d]; n at least 1.
        labels: the records' labels, int64[n].
        agents: the number of records per step.
        steps: the number K of steps per run.
        step_size: the step size γ.
        seed: seed for the random choice of records.
    """
    generator, longest = np.random.default_rng(seed), 0.0
    for _ in range(RUNS):
        model = kernel.initial(0)
        for _ in range(steps):
            rows = generator.integers(0, len(labels), agents)
            gradients = kernel.gradients(model[np.newaxis], features[rows][np.newaxis], labels[rows][np.newaxis])[0]
            longest = max(longest, float(np.sqrt((gradients**2).sum(axis=1)).max()))
            model = model - step_size * gradients.mean(axis=0)
    return longest
