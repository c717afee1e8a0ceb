"""Neighbouring worlds, and the requirements that they must meet.

Two worlds differ in one privacy unit, from the files on: each device reads its records from a file by the command's own
loader. Everything else is equal: queries, crashes, restarts, settings and edits of the
file. Then, without noise and with batches coupled record by record:

- both ledgers contain the same charges, and both worlds answer, refuse or crash in the same way;
- each release draws noise once, as charged, and adds one draw of its own to each number;
- no query whose release is stored is computed again;
- a record whose number is a hash keeps it in both worlds and at every start, whatever other records do;
- if two releases differ, the differing unit has been charged, and the releases differ by no more than the charge
  allows;
- the total difference over one unit's releases is within the ledger's total for that unit, which is within the
  statement.

Lengths are whole numbers of grid units, so no tolerance is needed.
"""

import math
import random
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sottovoce.config import AgentConfig
from sottovoce.errors import DataError, PrivacyError
from sottovoce.privacy.accounting.events import (
    SMOOTHING_VARIANCE,
    CellSum,
    Event,
    GaussianSum,
    PureRelease,
    RecordReleased,
)
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.sampled import SampledGaussian
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import Status
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism, l1_units
from sottovoce.privacy.perturbation import LabelledPrivUnit, Laplace, LaplaceCopies, PrivUnit
from sottovoce.privacy.perturbation.cap import PROBABILITY_BITS, _tail

from tests.neighbours.cases import Case
from tests.neighbours.lives import Life, draw_lives, make_arrivals_gradual, repeat_queries
from tests.neighbours.world import Seen, World


class RequirementViolated(AssertionError):
    """Error of neighbouring worlds that violate a requirement."""


def play(case: Case, seed: int) -> float:
    """Play one pair of neighbours.

    Returns:
        the largest share of its charge by which a release moved; 0 if none moved.

    Raises:
        Broken: if a requirement does not hold; the message names it.
    """
    with TemporaryDirectory() as left, TemporaryDirectory() as right:
        return _play(case, seed, (World(seed, Path(left)), World(seed, Path(right))))


def _play(case: Case, seed: int, worlds: tuple[World, World]) -> float:
    rng, numbers = random.Random(seed), dict[bytes, int]()
    largest = 0.0
    for life in make_arrivals_gradual(case, seed, repeat_queries(case, seed, draw_lives(case, rng))):
        config = case.config(**life.changed)
        if not start_both(worlds, life, config):
            continue
        require(worlds[0].statement == worlds[1].statement, "the statements differ")
        for world in worlds:
            if case.unit == "record" and world.units is not None and not world.enrolled:
                for identity, number in zip(world.identities, world.units.tolist(), strict=True):
                    require(numbers.setdefault(identity, number) == number, "an unchanged record has another number")
        assert worlds[0].statement is not None
        if worlds[0].statement.status is not Status.PROVED:
            continue
        for index, (query, crash) in enumerate(life.queries):
            over = None if life.over is None else life.over[index]
            one, other = (world.ask(query, crash, over) for world in worlds)
            largest = max(largest, compare(one, other))
    require(worlds[0].charges() == worlds[1].charges(), "the ledgers hold different charges")
    check_totals(*worlds)
    check_totals(*worlds[::-1])
    return largest


def start_both(worlds: tuple[World, World], life: Life, config: AgentConfig) -> bool:
    """Start both worlds; return False if neither starts: too few records for a chain, or [data] has changed."""
    failed = []
    for world, rows in zip(worlds, life.sides, strict=True):
        try:
            world.start(config, rows, follows=life.over is not None)
        except (DataError, PrivacyError) as error:
            failed.append(str(error).replace(str(world.directory), ""))
    require(len(failed) != 1 and len(set(failed)) <= 1, "one world starts and the other does not")
    return not failed


def compare(one: Seen, other: Seen) -> float:
    """Compare one answer in both worlds with its charge."""
    compare_outcomes(one, other)
    if one.charged is None or (one.exact is None and not one.record):
        return 0.0
    if one.exact is None or other.exact is None:
        difference = float(one.record != other.record)
    else:
        difference = share_of_charge(one.charged, one.exact - other.exact)
        require(difference <= 1, f"a release moves by {difference:.6g} of what it is charged for")
    if difference:
        require(_is_paid_for(one, other), f"a release moves by {difference:.6g} and the differing unit was not charged")
    return difference


def compare_outcomes(one: Seen, other: Seen) -> None:
    """Check that both worlds refuse, charge and compute alike, and that each release has the noise of its charge."""
    require(one.refused == other.refused, f"one world answers {one.refused}, the other {other.refused}")
    require(one.charged == other.charged, "only one world charges the query")
    for answer in (one, other):
        if answer.exact is not None or answer.record:
            require(answer.charged is not None, "a release without a charge")
            require(not answer.was_stored, "a query whose release is stored is computed again")
            _check_noise_and_batch(answer)
    is_computed = [answer.exact is not None or bool(answer.record) for answer in (one, other)]
    require(is_computed[0] == is_computed[1], "only one world computes a release")
    if one.exact is not None and other.exact is not None:
        require(one.exact.shape == other.exact.shape, "releases of different sizes")


def share_of_charge(event: Event, difference: Any) -> float:
    """Return the share of its charge by which a release moved; above 1 if and only if it moved too far."""
    squared = sum(int(number) ** 2 for number in difference)
    match event:
        case GaussianSum() | CellSum():
            allowed = event.sensitivity_squared
        case SampledGaussian():
            # A record drawn with certainty pays for what is drawn; replacing a record moves a sum by two of them.
            allowed = event.sensitivity_squared * (4 if event.neighbouring == "replace-one" else 1)
        case PureRelease():
            numbers = np.abs(difference[:-1]).reshape(event.copies, event.features)
            require(int(difference[-1]) == 0, "the number of records differs")
            length = int(numbers.max(axis=0).sum() if event.law == "joint" else numbers.sum())
            return _ratio(length, event.sensitivity)
        case _:
            raise RequirementViolated(f"{type(event).__name__} is not a proved charge")
    share = _ratio(squared, allowed)
    return math.sqrt(share) if share <= 1 else share


def check_totals(one: World, other: World) -> None:
    """Check that a unit's releases moved by no more than its ledger states, and that this is within the statement."""
    if one.statement is None:
        return
    assert one.ledger is not None
    assert one.statement.epsilon is not None
    units: frozenset[int] = frozenset().union(*(answer.units for answer in (*one.history, *other.history)))
    spent = max(
        (one.ledger.epsilon_spent(Units(((unit, unit),))) for unit in units), default=one.ledger.epsilon_spent(EVERY)
    )
    require(spent <= one.statement.epsilon, f"a unit paid ε = {spent} of a budget of {one.statement.epsilon}")
    require(one.ledger.spending().epsilon <= one.statement.epsilon, "some unit was charged more than the budget")
    charged = {query: event_mu(event) for query, event in _events(one) if _affects(event, units)}
    for unit in units:  # by the test's own sum, not the ledger's
        mu_squared = sum({query: event_mu(event) for query, event in _events(one) if _affects(event, {unit})}.values())
        spent = gaussian_epsilon(math.sqrt(mu_squared) * (1 - 1e-9), one.ledger.budget.delta)
        require(
            spent <= one.statement.epsilon, "a unit was charged more than its budget, and the ledger did not detect it"
        )
    divergence: dict[bytes, Fraction] = {}
    pure, released = Fraction(0), set()
    for answer, counterpart in zip(one.history, other.history, strict=True):
        if answer.refused is not None or answer.charged is None:
            continue
        if answer.record != counterpart.record and answer.query.id not in released:
            pure += Fraction(record_epsilon(answer))
        if answer.exact is None or counterpart.exact is None:
            released.add(answer.query.id)
            continue
        if isinstance(answer.charged, GaussianSum | CellSum):
            squared = sum(int(number) ** 2 for number in answer.exact - counterpart.exact)
            variance = _variance(answer.charged)
            divergence[answer.query.id] = divergence.get(answer.query.id, Fraction(0)) + Fraction(squared, variance)
        released.add(answer.query.id)
    paid, all_moved = sum(charged.values()), sum(divergence.values())
    require(all_moved <= paid, "a unit's releases differ by more than its charges")
    require(pure <= Fraction(one.statement.epsilon), "a record's releases cost more than its budget")
    seen_epsilon = gaussian_epsilon(math.sqrt(all_moved) * (1 - 1e-9), one.ledger.budget.delta)
    require(seen_epsilon <= one.statement.epsilon, "the difference exceeds the statement")


def event_mu(event: Event) -> Fraction:
    """Return μ² of a Gaussian charge, exactly."""
    if not isinstance(event, GaussianSum | CellSum):
        return Fraction(0)
    return Fraction(event.sensitivity_squared, _variance(event))


def _variance(event: GaussianSum | CellSum) -> int:
    """Return the variance of the underlying continuous Gaussian; in a cell, of all honest shares together."""
    spread = event.sigma**2 if isinstance(event, GaussianSum) else event.honest * event.share**2
    return spread - SMOOTHING_VARIANCE


def record_epsilon(answer: Seen) -> float:
    """Return the exact ε of one record's release: the largest likelihood ratio of its law, or the Laplace distance."""
    assert answer.plan is not None
    mechanism = answer.plan.mechanism
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
    raise RequirementViolated(f"no likelihood ratio is known here for {type(scheme).__name__}")


def _cap_epsilon(cap: Any) -> float:
    q = 0.5 if cap.dimension == 1 else _tail(cap.dimension, cap.gamma)[0]
    outside = 2**PROBABILITY_BITS - cap.inside
    return math.log(cap.inside) - math.log(outside) + math.log1p(-q) - math.log(q)


def _check_noise_and_batch(answer: Seen) -> None:
    """Check that noise of the charged law, scale and size was drawn once, and that the batch has the charged rate."""
    event, plan = answer.charged, answer.plan
    if isinstance(event, CellSum):
        assert answer.exact is not None
        require(answer.laws == [("gaussian", event.share, answer.exact.size)], f"a share of noise: {answer.laws}")
        _check_draws(answer.added, answer.draws)
        return
    assert plan is not None
    match event:
        case GaussianSum():
            expected = [("gaussian", event.sigma, plan.mechanism.size)]
        case SampledGaussian():
            expected = [("gaussian", event.sigma, plan.mechanism.size)]
            rate = getattr(plan.sampling, "batch", 0), getattr(plan.sampling, "of", 0)
            require(rate == (event.batch, event.of), f"a batch is drawn at {rate}, and another rate is charged")
            limit = 2**64 * event.batch // event.of
            batch = [row for row, word in answer.words if word < limit]
            require(event.batch == event.of or answer.drawn == batch, "a batch is not drawn at the charged rate")
        case PureRelease():
            law = "k-norm" if event.law == "joint" else "laplace"
            expected = [(law, event.scale, event.copies * event.features)]
        case RecordReleased():
            expected = []
            require(record_epsilon(answer) <= event.epsilon, "a record's release costs more than its charge")
            require(len(answer.record) == 1, "a record's release covers more than one record")
        case _:
            raise RequirementViolated(f"{type(event).__name__} is not a proved charge")
    require(answer.laws == expected, f"noise drawn: {answer.laws}; charged: {expected}")
    if answer.added is not None:
        _check_draws(answer.added, answer.draws, public=int(isinstance(event, PureRelease)))


def _check_draws(added: Any, draws: list[int], *, public: int = 0) -> None:
    """Check that each number of a release carries one draw of its own; the last `public` numbers carry none."""
    noised, rest = np.split(added, [len(added) - public])
    require(sorted(noised.tolist()) == sorted(draws), "a number of a release does not carry one draw of its own")
    require(not rest.any(), "a number that is public carries noise")


def _is_paid_for(one: Seen, other: Seen) -> bool:
    """Check whether the differing unit was charged for this release."""
    assert one.charged is not None
    units = one.units | other.units
    if not units:  # every release covers all units, or the single unit that is the device
        return one.charged.units == EVERY
    return _affects(one.charged, units)


def _affects(event: Event, units: Any) -> bool:
    spans = event.units.spans
    return event.units == EVERY or any(first <= unit <= last for unit in units for first, last in spans)


def _events(world: World) -> list[tuple[bytes, Event]]:
    return [(answer.query.id, answer.charged) for answer in world.history if answer.charged is not None]


def _ratio(numerator: int, allowed: int) -> float:
    """Return a ratio that is above 1 if and only if the numerator is larger, despite floating-point rounding."""
    quotient = numerator / allowed
    return max(quotient, math.nextafter(1, 2)) if numerator > allowed else min(quotient, 1.0)


def require(condition: bool, message: str) -> None:
    """Raise RequirementViolated with this message unless the condition holds."""
    if not condition:
        raise RequirementViolated(message)
