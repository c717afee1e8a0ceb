"""Integers that the same seed gives on every machine: prints the digest of each kind.

Run by the package's own Python on another architecture too, so nothing of the tests is imported here.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.steps.public.descent import Schedule, contribution
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import DiscreteLaplaceSampler
from sottovoce.privacy.vault import SeededNoise

DRAWS = 20_000
SCHEDULE = Schedule("clipd2p", 650, 10.0, 48, 0.7, 0.3, 120.0, 1)


def shown(kind: str, numbers: NDArray[np.int64]) -> None:
    """Print what they come to."""
    print(kind, hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest())


def main() -> None:
    """Print all kinds."""
    noise = SeededNoise(7)
    for spread in (1, 1_000, 2**26):
        shown(f"gaussian {spread}", DiscreteGaussianSampler(spread, noise).draw(DRAWS))
    for spread in (3, 2**20):
        shown(f"laplace {spread}", DiscreteLaplaceSampler(spread, noise).draw(DRAWS))
    release = DiscreteGaussianSampler(2**20, noise).draw(SCHEDULE.size)
    state = PushSumState(PushSum(SCHEDULE).initial_state().numerator, 2**40, step=5)
    shown("push-sum", contribution(SCHEDULE, state, release, 2.0**-20))


if __name__ == "__main__":
    main()
