"""Bound G of ConstD²P: the longest gradient of five runs without any privacy (AdaD²P 2024, Section 5). For testbeds.

The runs use push-sum SGD as in the paper, on a network that mixes at once: a step takes one random record of each
device. The runs read all records of the fleet, and their result is not charged to any budget.
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
    """Return the length of the longest gradient of one record in any step of any run.

    Args:
        kernel: the model.
        features: transformed features of all devices together, float64[n, d]; n at least 1.
        labels: labels of the records, int64[n].
        agents: number of records in a step.
        steps: number K of steps of a run.
        step_size: step size γ.
        seed: seed of the draws.
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
