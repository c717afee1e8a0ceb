"""Terms for golf, in which every record is released once, with noise."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.plugins import MECHANISM, Plugin, find, load, plugin_errors
from sottovoce.privacy.accounting.events import Event, RecordReleased
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.perturbation import (
    RESERVED_NAMES,
    Cap,
    LabelledPrivUnit,
    Laplace,
    LaplaceCopies,
    Moments,
    PrivUnit,
    RecordMechanismPlugin,
    Scheme,
    register_scheme,
    scheme,
)
from sottovoce.privacy.perturbation.plugin import ReleasingScheme, Words
from sottovoce.privacy.perturbation.scheme import Floats, Values
from sottovoce.privacy.terms.base import check_unit, unit_records
from sottovoce.privacy.terms.guarantee import REFUTED, THREAT_MODEL, Scaling, no_guarantee
from sottovoce.privacy.vault.numbering import enrol_records
from sottovoce.privacy.vault.programs.once import RecordRelease
from sottovoce.privacy.vault.vault import VaultContext


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
        with plugin_errors(plugin):
            inner: Any = mechanism.make(features, classes, epsilon)
            self.copies, self.width = int(inner.copies), int(inner.width)
            self.exponent, self.error = int(inner.exponent), float(inner.error)
            self.norm: Literal["l1", "l2"] = inner.norm
        self._inner: ReleasingScheme = inner

    def release(self, row: Floats, label: int, words: Words) -> Values:
        """Return the release of one record, int64[width]; see ReleasingScheme.release."""
        with plugin_errors(self.plugin):
            result: object = self._inner.release(row.copy(), label, words)
        return self._check_array("release()", result, np.int64, (self.width,))

    def emits(self, values: Values) -> bool:
        """Return whether a release may have these values. See Scheme.emits."""
        with plugin_errors(self.plugin):
            return bool(self._inner.emits(values))

    def decode(self, values: Values) -> Floats:
        """Return the unbiased estimates, float64[n, copies, d]. See Scheme.decode."""
        with plugin_errors(self.plugin):
            result: object = self._inner.decode(values)
        return self._check_array("decode()", result, np.float64, (len(values), self.copies, self.features))

    def moments(self, values: Values) -> Moments:
        """Return the sums of the plug-in's estimates, after checking their types and shapes. See Scheme.moments."""
        with plugin_errors(self.plugin):
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


def named_scheme(name: str, features: int, classes: int, epsilon: float) -> Scheme:
    """Return the named scheme, from Sottovoce or another package; see sottovoce.privacy.perturbation.scheme.

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
    return scheme(name, features, classes, epsilon)


_PROVED = "docs/explanation/privacy-model.md; docs/decisions/0009-record-releases.md"
_UNTESTED = "this ε is stated by another package; the neighbour suite has not tested its mechanism"


@dataclass(frozen=True, slots=True)
class RecordTerms:
    """Public terms for a learner that uses published records.

    Attributes:
        learner: the learner's name.
        scheme: scheme for the only release of each record; the noise-free `exact` if the budget has no ε.
        scaling: how features were scaled before they reached the vault. If the ranges come from the training set, no ε
            holds, so the budget must not promise one, and every release is charged as infinite.
    """

    learner: str
    scheme: Scheme
    scaling: Scaling

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """See Terms.context."""
        scheme = self.scheme
        check_unit(self.learner, ledger.budget)
        _check_promise(self, ledger.budget)
        self._check(records)
        epsilon = math.inf if scheme.epsilon is None or ledger.budget.epsilon is None else scheme.epsilon
        enrolled = enrol_records(unit_records(records, "record"), ledger)
        self._check(enrolled)
        program = RecordRelease(RecordMechanism(scheme), len(enrolled), epsilon)
        release_event = RecordReleased(0, scheme.name, scheme.features, scheme.classes, epsilon)
        lifetime: dict[Event, int] = {release_event: 1} if math.isfinite(epsilon) else {}
        return VaultContext(
            enrolled, program, ledger, noise, record_guarantee(ledger.budget, scheme, self.scaling), lifetime
        )

    def _check(self, records: Records) -> None:
        scheme = self.scheme
        if records.features.shape[1] != scheme.features or (records.labels >= scheme.classes).any():
            raise DataError(
                f"the records do not match the {scheme.features} features and {scheme.classes} classes that learner "
                f"`{self.learner}` publishes: correct data.features, data.classes or data.transform"
            )


def _check_promise(terms: RecordTerms, budget: Budget) -> None:
    scheme = terms.scheme
    if terms.scaling == "training-min-max":
        if budget.epsilon is not None:
            raise PrivacyError(
                "computing ranges from the training set leaks information that the budget does not cover, so no ε can "
                "be guaranteed; declare the feature ranges"
            )
        return
    if isinstance(scheme, PluginScheme):
        if budget.epsilon is not None:
            raise PrivacyError(
                f"no ε is proved for scheme `{scheme.name}` from package {scheme.plugin.package}, so none can be "
                "promised: set privacy.allow_unproved"
            )
        return
    if (scheme.epsilon is None) != (budget.epsilon is None):
        raise PrivacyError(
            f"learner `{terms.learner}` with scheme `{scheme.name}` does not fit this budget: noise-free "
            "releases require `--epsilon inf` in the testbed, and all others require an ε"
        )
    if scheme.epsilon is None or budget.epsilon is None:
        return
    if budget.neighbouring != "replace-one":
        raise PrivacyError(
            f"learner `{terms.learner}` publishes one release per record, which reveals the number of records, so "
            f"no ε holds under {budget.neighbouring}: set privacy.neighbouring=replace-one, under which the number is "
            "public"
        )
    if scheme.epsilon > budget.epsilon:
        raise PrivacyError(
            f"releasing a record once costs ε = {scheme.epsilon:g}, but the budget is {budget.epsilon:g}: "
            "create the scheme with the budget's ε"
        )


def record_guarantee(budget: Budget, scheme: Scheme, scaling: Scaling) -> PrivacyStatement:
    """Return the guarantee for releasing every record once by `scheme` or, if that is refuted, the refuted claim."""
    if scheme.epsilon is None:
        return no_guarantee(budget, "every record without noise, scaled to norm 1")
    refuted = scaling == "training-min-max"
    proved = not refuted and not isinstance(scheme, PluginScheme)
    return PrivacyStatement(
        unit=budget.unit,
        neighbouring=budget.neighbouring,
        mechanism=f"{_describe(scheme)}; pure ε = {scheme.epsilon:g} for a record and its label",
        composition="each record is released once: parallel over records",
        epsilon=budget.epsilon if proved else scheme.epsilon,
        delta=budget.delta,
        threat_model=THREAT_MODEL + "; the number of records is public",
        status=Status.PROVED if proved else Status.REFUTED if refuted else Status.AS_PUBLISHED,
        reason=_PROVED if proved else REFUTED if refuted else _UNTESTED,
    )


def _describe(scheme: Scheme) -> str:
    match scheme:
        case LaplaceCopies():
            law, target = _describe_laplace(scheme), f"on {scheme.copies} copies of a record of L1 norm 1"
        case Laplace():
            law, target = _describe_laplace(scheme), "on record ⊗ label, of L1 norm 1"
        case PrivUnit():
            law, target = _describe_priv_unit(scheme.cap), "on record ⊗ label"
        case LabelledPrivUnit():
            features_law = _describe_priv_unit(scheme.cap)
            law = f"randomised response on the label at ε = {scheme.label.epsilon:g} and {features_law}"
            target = "on the features"
        case PluginScheme():
            return f"{scheme.law}, from package {scheme.plugin.package}, on the grid 2^{scheme.exponent}"
        case _:
            raise InternalError(f"there is no description for scheme `{scheme.name}`: this is a bug; please report it")
    return f"{law} {target}, on the grid 2^{scheme.exponent}"


def _describe_laplace(scheme: Laplace | LaplaceCopies) -> str:
    return f"exact discrete Laplace, scale {math.ldexp(scheme.scale, scheme.exponent):.6g},"


def _describe_priv_unit(cap: Cap) -> str:
    return f"exact PrivUnit, γ = {cap.gamma:.6g}, p = {cap.probability:.6g},"
