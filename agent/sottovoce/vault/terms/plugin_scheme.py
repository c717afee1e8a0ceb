"""Adapter for a record mechanism's scheme that another package provides."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.perturbation import OWN, Moments, RecordMechanismPlugin, Scheme, register_scheme
from sottovoce.perturbation import scheme as own_scheme
from sottovoce.perturbation.plugin import ReleasingScheme, Words
from sottovoce.perturbation.scheme import Floats, Values
from sottovoce.plugins import MECHANISM, Plugin, find, guarded, load


class OfPlugin:
    """Scheme that is implemented by a plug-in, whose releases and results are checked.

    Args:
        plugin: the plug-in that provides the scheme.
        made: the object that the plug-in provides.
        features: d.
        classes: c.
        epsilon: ε of one release.
    """

    def __init__(
        self, plugin: Plugin, made: RecordMechanismPlugin, features: int, classes: int, epsilon: float
    ) -> None:
        self.plugin, self.law = plugin, made.law
        self.features, self.classes, self.epsilon = features, classes, epsilon
        self.name = plugin.name
        with guarded(plugin, "make()"):
            inner: Any = made.make(features, classes, epsilon)
            self.copies, self.width = int(inner.copies), int(inner.width)
            self.exponent, self.error = int(inner.exponent), float(inner.error)
            self.norm: Literal["l1", "l2"] = inner.norm
        self._inner: ReleasingScheme = inner

    def release(self, row: Floats, label: int, words: Words) -> Values:
        """Return the release of one record, int64[width]; see ReleasingScheme.release."""
        with guarded(self.plugin, "release()"):
            found: object = self._inner.release(row.copy(), label, words)
        return self._checked("release()", found, np.int64, (self.width,))

    def emits(self, values: Values) -> bool:
        """Return whether a release may have these values. See Scheme.emits."""
        with guarded(self.plugin, "emits()"):
            return bool(self._inner.emits(values))

    def decode(self, values: Values) -> Floats:
        """Return the unbiased estimates, float64[n, copies, d]. See Scheme.decode."""
        with guarded(self.plugin, "decode()"):
            found: object = self._inner.decode(values)
        return self._checked("decode()", found, np.float64, (len(values), self.copies, self.features))

    def moments(self, values: Values) -> Moments:
        """Return the sums of unbiased estimates. See Scheme.moments."""
        with guarded(self.plugin, "moments()"):
            found: object = self._inner.moments(values)
        if not isinstance(found, Moments):
            raise self.plugin.error(f"moments() returned an object of type {type(found).__name__}, not Moments")
        self._checked("moments().first", found.first, np.float64, (self.copies, self.features))
        self._checked("moments().second", found.second, np.float64, (self.features, self.features))
        return found

    def _checked(self, call: str, found: object, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
        if not isinstance(found, np.ndarray) or found.dtype != dtype or found.shape != shape:
            kind = f"{found.dtype}{list(found.shape)}" if isinstance(found, np.ndarray) else type(found).__name__
            raise self.plugin.error(f"{call} returned {kind}, not {np.dtype(dtype)}{list(shape)}")
        if dtype == np.float64 and not np.isfinite(found).all():
            raise self.plugin.error(f"{call} returned numbers that are not finite")
        return found


def scheme(name: str, features: int, classes: int, epsilon: float) -> Scheme:
    """Return the named scheme, from Sottovoce or another package; see sottovoce.perturbation.scheme.

    Raises:
        PrivacyError: if there is no such scheme, or it does not support this d, c and ε.
        PluginError: if the package that provides the scheme is broken.
    """
    plugin = find(MECHANISM, name, OWN)
    if plugin is not None:
        made: RecordMechanismPlugin = load(plugin, RecordMechanismPlugin)
        register_scheme(name, lambda features, classes, epsilon: OfPlugin(plugin, made, features, classes, epsilon))
    return own_scheme(name, features, classes, epsilon)
