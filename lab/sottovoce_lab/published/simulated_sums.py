"""Sums of clipped gradients for simulators, for a whole fleet at a time and with seeded noise; not for devices."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sottovoce.privacy.mechanisms.clipped_sum import ClippedSum, DiscreteGaussian
from sottovoce.privacy.mechanisms.clipping import clip_to_grid
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler

Gradients = Callable[[slice], NDArray[np.float64]]
_CHUNK_NUMBERS = 2**22  # gradient values at a time: 32 MiB of float64


def simulate_sums(
    mechanism: ClippedSum, gradients: Gradients, mask: NDArray[np.bool_], noise: NoiseSource
) -> NDArray[np.int64]:
    """Make one release per device; apart from the result, memory use is bounded.

    Args:
        mechanism: bound and noise of a release; the mechanism itself must clip.
        gradients: returns the gradients of a slice of devices, float64[n, B, P], with one example's gradient per row.
        mask: bool[N, B], true for the rows to count; other rows add nothing.
        noise: noise source for all devices.

    Returns:
        int64[N, P] on the mechanism's grid, distributed like the releases of the devices' vaults.
    """
    devices, batch = mask.shape
    values = np.empty((devices, mechanism.size), dtype=np.int64)
    rows = max(1, _CHUNK_NUMBERS // (max(1, batch) * mechanism.size))
    for start in range(0, devices, rows):
        devices_slice = slice(start, min(devices, start + rows))
        units = clip_to_grid(
            gradients(devices_slice).reshape(-1, mechanism.size), mechanism.step, mechanism.squared_clip_norm
        )
        units *= mask[devices_slice].reshape(-1, 1)
        values[devices_slice] = units.reshape(-1, batch, mechanism.size).sum(axis=1).astype(np.int64)
    if isinstance(mechanism, DiscreteGaussian):
        values += DiscreteGaussianSampler(mechanism.sigma, noise).draw(values.size).reshape(values.shape)
    return values
