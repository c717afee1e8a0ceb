"""From plain values to a working vault."""

import math
from dataclasses import dataclass, replace

from sottovoce.accounting.streams import coefficients
from sottovoce.accounting.units import EVERY, Units
from sottovoce.data import Records
from sottovoce.errors import DataError, InternalError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.perturbation import Scheme
from sottovoce.vault.bounded_point import calibrate_point
from sottovoce.vault.budget import Budget
from sottovoce.vault.clipped_sum import ClippedSum, calibrate, exact
from sottovoce.vault.guarantee import Scaling, chain_guarantee, guarantee, record_guarantee, stream_guarantee
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.lemmas import chain_sensitivity, rounding, smooth
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.programs import Chain, GradientSum, RecordRelease, WindowTotals
from sottovoce.vault.record_mechanism import RecordMechanism
from sottovoce.vault.stream_sum import STREAM_BITS, calibrate_stream
from sottovoce.vault.vault import Room, Vault
from sottovoce.vault.walk_room import WalkTerms, walk_room


@dataclass(frozen=True, slots=True)
class Terms:
    """What a learner of gradient sums asks of its vault, all of it public.

    Attributes:
        learner: `clipd2p`, or `push-sum`, which neither clips nor adds noise.
        releases: how many gradient sums the budget is spread over.
        clip: L2 threshold of what one privacy unit adds to a sum.
        windows: first and last window that may be asked about; None for all there are and will be.
    """

    learner: str
    releases: int
    clip: float
    windows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RecordTerms:
    """What a learner of published records asks of its vault, all of it public.

    Attributes:
        learner: its name.
        scheme: how each record is released, once; of no noise (`exact`) where the budget promises nothing.
        scaling: how features were scaled before they reached the vault. By the training set's own ranges no ε holds:
            the budget must promise none, and every release is charged as infinite.
    """

    learner: str
    scheme: Scheme
    scaling: Scaling


@dataclass(frozen=True, slots=True)
class ChainTerms:
    """What a learner of chains without replacement asks of its vault, all of it public.

    Attributes:
        learner: its name.
        step_size: η.
        batch: b, records in a step.
        period: R, steps in a chain, of which the last is released.
        passes: over the records.
    """

    learner: str
    step_size: float
    batch: int
    period: int
    passes: int


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """What is asked of the vault of a statistic that is published window by window, all of it public.

    Attributes:
        features: numbers in a window's total.
        clip: L2 threshold of a window's total.
        band: windows that a release remembers.
        windows: first and last window that may be asked about.
    """

    features: int
    clip: float
    band: int
    windows: tuple[int, int]


def build(
    *,
    records: Records,
    kernel: Kernel | None,
    terms: Terms | RecordTerms | WalkTerms | StreamTerms | ChainTerms,
    ledger: Ledger,
    noise: NoiseSource,
) -> Vault:
    """A vault over `records` that keeps to `terms` and to the ledger's budget.

    Args:
        records: the private records.
        kernel: the model whose gradients are summed; None where the terms say all of it.
        terms: what will be asked.
        ledger: opened for charging.
        noise: the source of randomness.

    Raises:
        PrivacyError: the terms have no guarantee under this budget, or it cannot be calibrated.
        DataError: the records are not of the shape that the terms declare.
    """
    if isinstance(terms, RecordTerms):
        return Vault(_record_room(records, terms, ledger, noise))
    if isinstance(terms, StreamTerms):
        return Vault(_stream_room(records, terms, ledger, noise))
    if isinstance(terms, WalkTerms):
        _check_unit(terms.learner, ledger.budget)
        return Vault(walk_room(_unit_records(records, "record"), terms, ledger, noise))
    if kernel is None:
        raise InternalError("a vault of gradient sums needs a kernel: report this defect")
    if isinstance(terms, ChainTerms):
        _check_unit(terms.learner, ledger.budget)
        return Vault(_chain_room(records, kernel, terms, ledger, noise))
    return Vault(_gradient_room(records, kernel, terms, ledger, noise))


def _gradient_room(records: Records, kernel: Kernel, terms: Terms, ledger: Ledger, noise: NoiseSource) -> Room:
    budget = ledger.budget
    clip = None if terms.learner == "push-sum" else terms.clip
    mechanism: ClippedSum
    if budget.epsilon is None:
        mechanism = exact(clip=clip, size=kernel.size)
    elif clip is None:
        raise PrivacyError(
            f"learner `{terms.learner}` adds no noise, so no ε holds for it: use `clipd2p`, "
            "or `--epsilon inf` in the testbed"
        )
    else:
        mechanism = calibrate(
            clip=clip,
            size=kernel.size,
            releases=terms.releases,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=budget.neighbouring,
        )
    units = EVERY if budget.unit != "window" or terms.windows is None else Units((terms.windows,))
    program = GradientSum(kernel, mechanism, budget.unit, units)
    return Room(_unit_records(records, budget.unit), program, ledger, noise, guarantee(budget, mechanism, clip))


def _chain_room(records: Records, kernel: Kernel, terms: ChainTerms, ledger: Ledger, noise: NoiseSource) -> Room:
    budget = ledger.budget
    if budget.epsilon is None:
        raise PrivacyError(f"learner `{terms.learner}` has no variant without noise here: set a finite privacy.epsilon")
    distance = chain_sensitivity(
        smooth(kernel),
        step_size=terms.step_size,
        batch=terms.batch,
        steps=terms.period,
        neighbouring=budget.neighbouring,
    )
    strays = rounding(
        features=records.features.shape[1],
        classes=kernel.size // records.features.shape[1],
        step_size=terms.step_size,
        batch=terms.batch,
        steps=terms.period,
    )
    mechanism = calibrate_point(
        distance=distance + strays,
        size=kernel.size,
        releases=terms.passes,
        epsilon=budget.epsilon,
        delta=budget.delta,
    )
    program = Chain(kernel, mechanism, terms.step_size, terms.batch, terms.period, terms.passes, len(records))
    if program.chains < 1:
        raise DataError(
            f"learner `{terms.learner}`: {len(records)} records make no chain of {terms.period} batches of "
            f"{terms.batch}: take smaller batches or a shorter period"
        )
    statement = chain_guarantee(budget, mechanism, terms.passes)
    return Room(_unit_records(records, "record"), program, ledger, noise, statement)


def _stream_room(records: Records, terms: StreamTerms, ledger: Ledger, noise: NoiseSource) -> Room:
    budget = ledger.budget
    if budget.epsilon is None or budget.unit != "window":
        raise PrivacyError("a stream of totals has a finite ε and its unit is a window: set privacy.unit=window")
    if records.features.shape[1] != terms.features:
        raise DataError(f"the records do not have the {terms.features} features of the stream: correct data.features")
    mechanism = calibrate_stream(
        clip=terms.clip,
        size=terms.features,
        coefficients=coefficients("square-root", terms.band, STREAM_BITS),
        bits=STREAM_BITS,
        epsilon=budget.epsilon,
        delta=budget.delta,
        neighbouring=budget.neighbouring,
    )
    program, statement = WindowTotals(mechanism, terms.windows), stream_guarantee(budget, mechanism, terms.clip)
    return Room(_unit_records(records, "window"), program, ledger, noise, statement)


def _unit_records(records: Records, unit: str) -> Records:
    """Records that know their windows where a window is the unit, and only there."""
    if unit != "window":
        return replace(records, windows=None)
    if records.windows is None:
        raise DataError(
            "the privacy unit is a window, but the records do not say which window they belong to: store their numbers "
            "as the array `windows` of an npz file, or choose privacy.unit=record"
        )
    return records


def _record_room(records: Records, terms: RecordTerms, ledger: Ledger, noise: NoiseSource) -> Room:
    scheme = terms.scheme
    _check_unit(terms.learner, ledger.budget)
    _check_promise(terms, ledger.budget)
    if records.features.shape[1] != scheme.features or (records.labels >= scheme.classes).any():
        raise DataError(
            f"the records are not of the {scheme.features} features and {scheme.classes} classes that learner "
            f"`{terms.learner}` publishes: correct data.features, data.classes or data.transform"
        )
    epsilon = math.inf if scheme.epsilon is None or ledger.budget.epsilon is None else scheme.epsilon
    program = RecordRelease(RecordMechanism(scheme), len(records), epsilon)
    return Room(
        _unit_records(records, "record"), program, ledger, noise, record_guarantee(ledger.budget, scheme, terms.scaling)
    )


def _check_unit(learner: str, budget: Budget) -> None:
    if budget.unit != "record":
        raise PrivacyError(
            f"learner `{learner}` bounds what one record adds, not what a {budget.unit} does: set privacy.unit=record"
        )


def _check_promise(terms: RecordTerms, budget: Budget) -> None:
    scheme = terms.scheme
    if terms.scaling == "training-min-max":
        if budget.epsilon is not None:
            raise PrivacyError(
                "ranges computed from the training set are a release that nobody pays for, so no ε holds and none may "
                "be promised: declare the ranges of the features"
            )
        return
    if (scheme.epsilon is None) != (budget.epsilon is None):
        raise PrivacyError(
            f"learner `{terms.learner}` with scheme `{scheme.name}` does not fit this budget: releases without noise "
            "go with `--epsilon inf` in the testbed, all others with an ε"
        )
    if scheme.epsilon is None or budget.epsilon is None:
        return
    if budget.neighbouring != "replace-one":
        raise PrivacyError(
            f"learner `{terms.learner}` publishes record by record, which shows how many there are, so no ε holds "
            f"under {budget.neighbouring}: set privacy.neighbouring=replace-one, where the number is public"
        )
    if scheme.epsilon > budget.epsilon:
        raise PrivacyError(
            f"one release of a record costs ε = {scheme.epsilon:g} and the budget is {budget.epsilon:g}: "
            "make the scheme for the budget's ε"
        )
