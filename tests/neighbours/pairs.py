"""Neighbours, and the requirements that they must meet.

Two worlds differ in one privacy unit, and have equal lives otherwise: equal queries, deaths, restarts, settings
and edits of the file. Then, with the noise left out and batches coupled record by record:

- both ledgers hold the same charges, and both answer, refuse or die alike;
- a release is drawn with the noise that it is charged for, once;
- if two releases differ, the differing unit has been charged, and the releases differ by no more than the charge
allows; - all that one unit's releases differ by comes to no more than the ledger says of it, and that to no more than
the
  statement.

Lengths are whole numbers of grid units: there is no tolerance.
"""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
from sottovoce.accounting.events import SMOOTHING_VARIANCE, CellSum, Event, GaussianSum, PureRelease, RecordReleased
from sottovoce.accounting.gaussian import gaussian_epsilon
from sottovoce.accounting.sampled import SampledGaussian
from sottovoce.accounting.units import EVERY, Units
from sottovoce.door import Status
from sottovoce.errors import DataError, PrivacyError
from sottovoce.perturbation import LabelledPrivUnit, Laplace, LaplaceCopies, PrivUnit
from sottovoce.perturbation.cap import PROBABILITY_BITS, _tail
from sottovoce.vault.record_mechanism import RecordMechanism
from sottovoce.vault.record_units import l1_units

from tests.neighbours.cases import Case
from tests.neighbours.lives import Life, followed, lives
from tests.neighbours.world import Seen, World


class Broken(AssertionError):
    """Error of a release that differs between neighbours by more than was paid for."""


def play(case: Case, seed: int) -> float:
    """Play one pair of neighbours.

    Returns:
        the largest share of its charge by which a release moved; 0 if none moved.

    Raises:
        Broken: if a requirement does not hold; the message names it.
    """
    rng = random.Random(seed)
    worlds = World(seed), World(seed)
    largest = 0.0
    for life in followed(case, seed, lives(case, rng)):
        config = case.config(**life.changed)
        if not _started(worlds, life, config, case):
            continue
        _require(worlds[0].statement == worlds[1].statement, "the statements differ")
        assert worlds[0].statement is not None
        if worlds[0].statement.status is not Status.PROVED:
            continue
        for place, (query, crash) in enumerate(life.queries):
            over = None if life.over is None else life.over[place]
            one, other = (world.ask(query, crash, over) for world in worlds)
            largest = max(largest, compare(one, other))
    _require(worlds[0].charges() == worlds[1].charges(), "the ledgers hold different charges")
    return max(largest, whole(*worlds), whole(*worlds[::-1]))


def _started(worlds: tuple[World, World], life: Life, config: Any, case: Case) -> bool:
    """Start both worlds; return False if neither starts: too few records for a chain, or [data] has changed."""
    failed = []
    for world, rows in zip(worlds, life.sides, strict=True):
        try:
            world.start(config, rows, case.terms(), follows=life.over is not None)
        except (DataError, PrivacyError) as error:
            failed.append(str(error))
    _require(len(failed) != 1 and len(set(failed)) <= 1, "one world starts and the other does not")
    return not failed


def compare(one: Seen, other: Seen) -> float:
    """Compare one answer in both worlds with its charge."""
    _require(one.refused == other.refused, f"one world answers {one.refused}, the other {other.refused}")
    _require(one.charged == other.charged, "one world charges what the other does not")
    moved = 0.0
    for seen in (one, other):
        if seen.exact is not None or seen.record:
            _require(seen.charged is not None, "a release without a charge")
            _drawn_as_charged(seen)
    if one.exact is None and not one.record:
        _require(other.exact is None and not other.record, "one world computes what the other does not")
        return moved
    assert one.charged is not None
    if one.record or other.record:
        moved = float(one.record != other.record)
    else:
        _require(other.exact is not None and one.exact is not None, "one world computes what the other does not")
        assert one.exact is not None
        assert other.exact is not None
        _require(one.exact.shape == other.exact.shape, "releases of different sizes")
        moved = part(one.charged, one.exact - other.exact, one)
        _require(moved <= 1 or bool(one.shared), f"a release moves by {moved:.6g} of what it is charged for")
    if moved:
        _require(_paid(one, other), f"a release moves by {moved:.6g} and the unit that differs did not pay")
    return moved


def part(event: Event, moved: Any, seen: Seen) -> float:
    """Return the share of its charge by which a release moved; above 1 if and only if it moved too far."""
    squared = sum(int(number) ** 2 for number in moved)
    match event:
        case GaussianSum() | CellSum():
            allowed = event.sensitivity_squared
        case SampledGaussian():
            # A record drawn with certainty pays for what is drawn; replacing a record moves a sum by two of them.
            allowed = event.sensitivity_squared * (4 if event.neighbouring == "replace-one" else 1)
        case PureRelease():
            numbers = np.abs(moved[:-1]).reshape(event.copies, event.features)
            _require(int(moved[-1]) == 0, "the number of records differs")
            length = int(numbers.max(axis=0).sum() if event.law == "joint" else numbers.sum())
            return _ratio(length, event.sensitivity)
        case _:
            raise Broken(f"{type(event).__name__} is no charge that is proved")
    share = _ratio(squared, allowed)
    return math.sqrt(share) if share <= 1 else share


def whole(one: World, other: World) -> float:
    """Check that a unit's releases moved by no more than its ledger states, and that this is within the statement.

    Returns:
        the share of the ledger's figure that they moved by, if one charge pays for several releases; else 0.
    """
    if one.statement is None:
        return 0.0
    assert one.ledger is not None
    assert one.statement.epsilon is not None
    units: frozenset[int] = frozenset().union(*(seen.units for seen in (*one.history, *other.history)))
    spent = max(
        (one.ledger.epsilon_spent(Units(((unit, unit),))) for unit in units), default=one.ledger.epsilon_spent(EVERY)
    )
    _require(spent <= one.statement.epsilon, f"a unit paid ε = {spent} of a budget of {one.statement.epsilon}")
    _require(one.ledger.spending().epsilon <= one.statement.epsilon, "someone paid more than the budget")
    charged = {query: event_mu(event) for query, event in _events(one) if _touches(event, units)}
    for unit in units:  # by the test's own sum, not the ledger's
        mu_squared = sum({query: event_mu(event) for query, event in _events(one) if _touches(event, {unit})}.values())
        spent = gaussian_epsilon(math.sqrt(mu_squared) * (1 - 1e-9), one.ledger.budget.delta)
        _require(spent <= one.statement.epsilon, "a unit paid more than its budget, and the ledger does not know")
    moved: dict[bytes, Fraction] = {}
    pure, released = Fraction(0), set()
    for seen, also in zip(one.history, other.history, strict=True):
        if seen.refused is not None or seen.charged is None:
            continue
        if seen.record != also.record and seen.query.id not in released:
            pure += Fraction(record_epsilon(seen))
        if seen.exact is not None and also.exact is not None and isinstance(seen.charged, GaussianSum | CellSum):
            squared = sum(int(number) ** 2 for number in seen.exact - also.exact)
            variance = _variance(seen.charged)
            moved[seen.query.id] = moved.get(seen.query.id, Fraction(0)) + Fraction(squared, variance)
        released.add(seen.query.id)
    paid, all_moved = sum(charged.values()), sum(moved.values())
    _require(all_moved <= paid, "a unit's releases move farther than it has paid for")
    _require(pure <= Fraction(one.statement.epsilon), "a record's releases cost more than its budget")
    seen_epsilon = gaussian_epsilon(math.sqrt(all_moved) * (1 - 1e-9), one.ledger.budget.delta)
    _require(seen_epsilon <= one.statement.epsilon, "what differs is more than the statement says")
    shared = any(seen.shared for seen in one.history)
    return math.sqrt(all_moved / paid) if shared and paid else 0.0


def event_mu(event: Event) -> Fraction:
    """Return μ² of a Gaussian charge, exactly."""
    if not isinstance(event, GaussianSum | CellSum):
        return Fraction(0)
    return Fraction(event.sensitivity_squared, _variance(event))


def _variance(event: GaussianSum | CellSum) -> int:
    """Return the variance of the underlying continuous Gaussian; in a cell, of all honest shares together."""
    spread = event.sigma**2 if isinstance(event, GaussianSum) else event.honest * event.share**2
    return spread - SMOOTHING_VARIANCE


def record_epsilon(seen: Seen) -> float:
    """Return the exact ε of one record's release: the largest likelihood ratio of its law, or the Laplace distance."""
    assert seen.plan is not None
    mechanism = seen.plan.mechanism
    assert isinstance(mechanism, RecordMechanism)
    scheme = mechanism.scheme
    match scheme:
        case Laplace() | LaplaceCopies():
            copies = scheme.copies if isinstance(scheme, LaplaceCopies) else 1
            row = np.zeros(scheme.features)
            row[0] = 1.0
            return 2 * copies * sum(map(abs, l1_units(row, scheme.unit))) / scheme.scale
        case PrivUnit():
            return _cap_epsilon(scheme.cap)
        case LabelledPrivUnit():
            label = scheme.label
            return _cap_epsilon(scheme.cap) + math.log(label.true_weight) - math.log(label.other_weight)
    raise Broken(f"no likelihood ratio is known here for {type(scheme).__name__}")


def _cap_epsilon(cap: Any) -> float:
    q = 0.5 if cap.dimension == 1 else _tail(cap.dimension, cap.gamma)[0]
    outside = 2**PROBABILITY_BITS - cap.inside
    return math.log(cap.inside) - math.log(outside) + math.log1p(-q) - math.log(q)


def _drawn_as_charged(seen: Seen) -> None:
    """Check that noise of the charged law, scale and size was drawn once, and that the batch has the charged rate."""
    event, plan = seen.charged, seen.plan
    if isinstance(event, CellSum):
        assert seen.exact is not None
        _require(seen.laws == [("gaussian", event.share, seen.exact.size)], f"a share of noise: {seen.laws}")
        return
    assert plan is not None
    match event:
        case GaussianSum():
            expected = [("gaussian", event.sigma, plan.mechanism.size)]
        case SampledGaussian():
            expected = [("gaussian", event.sigma, plan.mechanism.size)]
            rate = getattr(plan.sampling, "batch", 0), getattr(plan.sampling, "of", 0)
            _require(rate == (event.batch, event.of), f"a batch is drawn at {rate}, and another rate is charged")
            limit = 2**64 * event.batch // event.of
            batch = [row for row, word in seen.words if word < limit]
            _require(event.batch == event.of or seen.drawn == batch, "a batch is not drawn at the rate charged")
        case PureRelease():
            law = "k-norm" if event.law == "joint" else "laplace"
            expected = [(law, event.scale, event.copies * event.features)]
        case RecordReleased():
            expected = []
            _require(record_epsilon(seen) <= event.epsilon, "a record's law costs more than it is charged")
            _require(len(seen.record) == 1, "a record's release is not of one record")
        case _:
            raise Broken(f"{type(event).__name__} is no charge that is proved")
    _require(seen.laws == expected, f"noise drawn: {seen.laws}; charged: {expected}")


def _paid(one: Seen, other: Seen) -> bool:
    """Check whether the differing unit was charged for this release, now or by an earlier charge that pays for it."""
    events = [event for event in (one.charged, *one.shared) if event is not None]
    units = one.units | other.units
    if not units:  # every release covers all units, or the single unit that is the device
        return any(event.units == EVERY for event in events)
    return any(_touches(event, units) for event in events)


def _touches(event: Event, units: Any) -> bool:
    spans = event.units.spans
    return event.units == EVERY or any(first <= unit <= last for unit in units for first, last in spans)


def _events(world: World) -> list[tuple[bytes, Event]]:
    return [(seen.query.id, seen.charged) for seen in world.history if seen.charged is not None]


def _ratio(part_of: int, allowed: int) -> float:
    """Return a ratio that is above 1 if and only if the first is above the second, whatever the rounding of floats."""
    quotient = part_of / allowed
    return max(quotient, math.nextafter(1, 2)) if part_of > allowed else min(quotient, 1.0)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


# ------------------------------------------------------------------------------------------------ what is generated
