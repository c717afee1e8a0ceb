"""Models of measured devices: travelling models, or ridge models fitted to a device's records or sums."""

import hashlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.kernels.least_squares import ridge
from sottovoce.privacy.perturbation import Scheme
from sottovoce_papers.hegedus_2017.golf.public.moments import PackedMoments

from sottovoce_lab.simulator.vector import MixedSums, RecordStores, TravellingModels

DeviceModels = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Distinct models, float64[m, copies, d], and the index of each device's model, int64[devices]."""

_MAX_WORK = 4e10
_MAX_SUM_MODELS = 8
_CHUNK = 256


class Models(Protocol):
    """Access to a fleet's models."""

    def for_devices(self, devices: NDArray[np.int64]) -> DeviceModels:
        """Return these devices' models, or only some of them if fitting is expensive."""
        ...


class CurrentModels:
    """Access to travelling models, where a device's model is its currentModel."""

    def __init__(self, state: TravellingModels) -> None:
        self._state = state

    def for_devices(self, devices: NDArray[np.int64]) -> DeviceModels:
        """Return the devices' models; see Models.for_devices."""
        return self._state.weights[devices].astype(np.float64), np.arange(len(devices))


class FittedModels:
    """Access to ridge models fitted to each device's published records; devices with equal records share a model.

    The number of models per cycle is limited so that fitting takes no more than about 4·10¹⁰ multiplications, but at
    least one model is always fitted.

    Args:
        state: the record stores of all devices.
        scheme: the record perturbation scheme.
        values: the published records, int64[nodes, width].
    """

    def __init__(self, state: RecordStores, scheme: Scheme, values: NDArray[np.int64]) -> None:
        self._state = state
        self._scheme = scheme
        self._values = values
        self._model_cache: dict[bytes, NDArray[np.float64]] = {}
        work = float(len(values)) * scheme.features * (scheme.width + scheme.features)
        self._max_models = max(1, int(_MAX_WORK / work))

    def for_devices(self, devices: NDArray[np.int64]) -> DeviceModels:
        """Return the devices' models, where every device has at least its own record; see Models.for_devices."""
        keys = [hashlib.sha256(self._state.bits[device].data).digest() for device in devices]
        fitted: dict[bytes, NDArray[np.float64]] = {}
        measured: list[bytes] = []
        for key, device in zip(keys, devices, strict=True):
            if key not in fitted:
                if len(fitted) == self._max_models:
                    continue
                fitted[key] = self._model_cache[key] if key in self._model_cache else self._fit(int(device))
            measured.append(key)
        self._model_cache = fitted
        order = {key: index for index, key in enumerate(fitted)}
        return np.stack(list(fitted.values())), np.array([order[key] for key in measured])

    def _fit(self, device: int) -> NDArray[np.float64]:
        return ridge(self._scheme.moments(self._values[self._state.stored_owners(device)]))


class SumModels:
    """Access to ridge models, each fitted to a device's mean of mixed sums; only for the first few devices.

    Args:
        state: provides each device's mixing weights.
        moments: converts releases to rows, and the mean row to a model.
        values: the published records, int64[nodes, width].
    """

    def __init__(self, state: MixedSums, moments: PackedMoments, values: NDArray[np.int64]) -> None:
        self._state = state
        self._moments = moments
        self._values = values

    def for_devices(self, devices: NDArray[np.int64]) -> DeviceModels:
        """Return the first devices' models; see Models.for_devices."""
        devices = devices[:_MAX_SUM_MODELS]
        weights = np.stack([self._state.mean_weights(int(device)) for device in devices])
        means = np.zeros((len(devices), self._moments.size))
        scheme = self._moments.scheme
        for start in range(0, len(self._values), _CHUNK):
            chunk = self._values[start : start + _CHUNK]
            rows = np.stack([self._moments.pack(scheme.moments(value[np.newaxis])) for value in chunk])
            means += weights[:, start : start + _CHUNK] @ rows
        models = [self._moments.model(mean).reshape(scheme.copies, scheme.features) for mean in means]
        return np.stack(models), np.arange(len(devices))
