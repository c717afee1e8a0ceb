"""ConstD²P's G: the longest gradient of five runs without any privacy (AdaD²P 2024, Section 5). For testbeds alone.

The runs are of push-sum SGD as the paper has it, on a network that mixes at once: a step takes one random record of
each device. They look at all records of the fleet, and their result is charged to no one.
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
    """The longest gradient of one record that any step of any run took.

    Args:
        kernel: the model.
        features: float64[n, d], transformed, of all devices together; n at least 1.
        labels: int64[n].
        agents: records in a step.
        steps: K of a run.
        step_size: γ.
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
