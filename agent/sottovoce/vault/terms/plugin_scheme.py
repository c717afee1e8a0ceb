"""Adapter for record mechanisms from other packages."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.perturbation import RESERVED_NAMES, Moments, RecordMechanismPlugin, Scheme, register_scheme
from sottovoce.perturbation import scheme as own_scheme
from sottovoce.perturbation.plugin import ReleasingScheme, Words
from sottovoce.perturbation.scheme import Floats, Values
from sottovoce.plugins import MECHANISM, Plugin, find, guarded, load


class PluginScheme:
    """Scheme implemented by a plug-in, with checks on everything that the plug-in returns.

    Args:
        plugin: the plug-in that provides the scheme.
        mechanism: the object that the plug-in provides.
        features: d.
        classes: c.
        epsilon: ε of one release.
    """

    def __init__(
        self, plugin: Plugin, mechanism: RecordMechanismPlugin, features: int, classes: int, epsilon: float
    ) -> None:
        self.plugin, self.law = plugin, mechanism.law
        self.features, self.classes, self.epsilon = features, classes, epsilon
        self.name = plugin.name
        with guarded(plugin, "make()"):
            inner: Any = mechanism.make(features, classes, epsilon)
            self.copies, self.width = int(inner.copies), int(inner.width)
            self.exponent, self.error = int(inner.exponent), float(inner.error)
            self.norm: Literal["l1", "l2"] = inner.norm
        self._inner: ReleasingScheme = inner

    def release(self, row: Floats, label: int, words: Words) -> Values:
        """Return the release of one record, int64[width]; see ReleasingScheme.release."""
        with guarded(self.plugin, "release()"):
            result: object = self._inner.release(row.copy(), label, words)
        return self._check_array("release()", result, np.int64, (self.width,))

    def emits(self, values: Values) -> bool:
        """Return whether a release may have these values. See Scheme.emits."""
        with guarded(self.plugin, "emits()"):
            return bool(self._inner.emits(values))

    def decode(self, values: Values) -> Floats:
        """Return the unbiased estimates, float64[n, copies, d]. See Scheme.decode."""
        with guarded(self.plugin, "decode()"):
            result: object = self._inner.decode(values)
        return self._check_array("decode()", result, np.float64, (len(values), self.copies, self.features))

    def moments(self, values: Values) -> Moments:
        """Return the sums of the plug-in's estimates, after checking their types and shapes. See Scheme.moments."""
        with guarded(self.plugin, "moments()"):
            result: object = self._inner.moments(values)
        if not isinstance(result, Moments):
            raise self.plugin.error(f"moments() returned an object of type {type(result).__name__}, not Moments")
        self._check_array("moments().first", result.first, np.float64, (self.copies, self.features))
        self._check_array("moments().second", result.second, np.float64, (self.features, self.features))
        return result

    def _check_array(self, call: str, result: object, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
        if not isinstance(result, np.ndarray) or result.dtype != dtype or result.shape != shape:
            kind = f"{result.dtype}{list(result.shape)}" if isinstance(result, np.ndarray) else type(result).__name__
            raise self.plugin.error(f"{call} returned {kind}, not {np.dtype(dtype)}{list(shape)}")
        if dtype == np.float64 and not np.isfinite(result).all():
            raise self.plugin.error(f"{call} returned numbers that are not finite")
        return result


def scheme(name: str, features: int, classes: int, epsilon: float) -> Scheme:
    """Return the named scheme, from Sottovoce or another package; see sottovoce.perturbation.scheme.

    Raises:
        PrivacyError: if there is no such scheme, or it does not support this d, c and ε.
        PluginError: if the package that provides the scheme is broken.
    """
    plugin = find(MECHANISM, name, RESERVED_NAMES)
    if plugin is not None:
        mechanism: RecordMechanismPlugin = load(plugin, RecordMechanismPlugin)
        register_scheme(
            name, lambda features, classes, epsilon: PluginScheme(plugin, mechanism, features, classes, epsilon)
        )
    return own_scheme(name, features, classes, epsilon)
