"""Every printed ε against a second library's: for any charges, any calibration, and each proved learner's whole run."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings, strategies as st
from sottovoce.algorithms.family import required_budget
from sottovoce.privacy.accounting.events import CellSum, Event, GaussianSum, PureRelease, RecordReleased
from sottovoce.privacy.accounting.sampled import SampledGaussian
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.bounded_point import calibrate_point
from sottovoce.privacy.mechanisms.cell_sum import calibrate_cell
from sottovoce.privacy.mechanisms.clipped_sum import calibrate
from sottovoce.privacy.mechanisms.sampled_sum import calibrate_sampled

from tests.neighbours.cases import Case, empty_vault, list_proved_cases
from tests.support.exact_epsilon import exact_epsilon

DELTA = 1e-5
RELATIONS = ("add-remove", "replace-one")

# Shrinking would compute the cost of hundreds of examples, at a second each.
fewer_examples = settings(max_examples=25, phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False)
sensitivities = st.integers(2**19, 2**20)  # large enough that noise on a grid is like continuous noise
gaussians = st.builds(
    lambda length, noise: GaussianSum(length**2, int(noise * length)), sensitivities, st.floats(1, 40)
)
cells = st.builds(
    lambda length, noise, honest: CellSum(length**2, int(noise * length), honest),
    sensitivities,
    st.floats(1, 20),
    st.integers(1, 9),
)
pure = st.builds(
    lambda scale: PureRelease("laplace", 1, 3, 2**20, scale, math.nextafter(2**20 / scale, math.inf)),
    st.integers(2**20, 2**25),
)
records = st.builds(RecordReleased, st.just(0), st.just("privunit"), st.just(3), st.just(2), st.floats(0.05, 1.0))
counts = st.integers(1, 60)


@st.composite
def charges(draw: st.DrawFn) -> dict[Event, int]:
    """Draw charges of any kind; those of sampled sums share a relation."""
    relation: Any = draw(st.sampled_from(RELATIONS))
    sampling: Any = (
        st.just("poisson") if relation == "add-remove" else st.sampled_from(["poisson", "without-replacement"])
    )
    rates = st.integers(1, 100).map(lambda percent: Fraction(percent, 100))
    sampled = st.builds(
        lambda length, noise, how, rate: SampledGaussian(
            length**2, int(noise * length), how, rate.numerator, rate.denominator, relation
        ),
        sensitivities,
        st.floats(0.8, 20),
        sampling,
        rates,
    )
    kinds: Any = draw(
        st.lists(st.sampled_from([gaussians, cells, pure, records, sampled, sampled]), min_size=1, max_size=3)
    )
    return {draw(kind): draw(counts) for kind in kinds}


EVERY_RECORD = SampledGaussian(2**40, 10 * 2**20, "poisson", 1, 1, "replace-one")
"""A sum over all records, charged as a batch of all of them."""


@pytest.mark.slow
@fewer_examples
@example({EVERY_RECORD: 40})
@given(charges())
def test_a_ledger_prints_at_least_what_its_charges_cost(charged: dict[Event, int]) -> None:
    tally = Tally(DELTA)
    for event, count in charged.items():
        for _ in range(count):
            tally.add(event)
    assert exact_epsilon(charged, DELTA) <= tally.epsilon()


@pytest.mark.parametrize("releases, epsilon, size", [(1, 0.5, 4), (40, 3.0, 422)])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ["full", "poisson", "every record", "cell", "point"])
def test_a_calibrated_mechanism_costs_at_most_its_budget(
    kind: str, relation: str, releases: int, epsilon: float, size: int
) -> None:
    """Check a planned run by what its relation means for a sum: one change moves it by C, or by 2 C."""
    clip = 2.0
    allowed: Any = {"epsilon": epsilon, "delta": DELTA, "neighbouring": relation}
    if kind in ("poisson", "every record"):
        of = 20
        mechanism, event = calibrate_sampled(
            clip=clip, size=size, releases=releases, batch=of if kind == "every record" else 5, of=of, **allowed
        )
        assert (event.sigma, event.neighbouring) == (mechanism.sigma, relation)
        assert event.sensitivity_squared >= mechanism.clip_squared
        assert exact_epsilon({event: releases}, DELTA) <= epsilon
        return
    distance = {"add-remove": 1, "replace-one": 2}[relation] * clip
    if kind == "cell":
        cell = Cell(8, 12, 2, 0.7, spare=1)
        shared = calibrate_cell(cell, sums=releases, clip=clip, size=size, **allowed)
        for members in range(cell.least, cell.most + 1):
            survivors = max(math.ceil(0.7 * members), (members + cell.colluding) // 2 + 1)
            variance = (survivors - cell.colluding) * shared.share(members) ** 2
            moved = GaussianSum(math.floor((distance / shared.step) ** 2), math.isqrt(variance) + 1)
            assert exact_epsilon({moved: releases + cell.spare}, DELTA) <= epsilon
        return
    if kind == "point":
        point = calibrate_point(distance=distance, size=size, releases=releases, epsilon=epsilon, delta=DELTA)
        sigma, step = point.sigma, math.ldexp(1.0, point.exponent)
    else:
        summed = calibrate(clip=clip, size=size, releases=releases, **allowed)
        sigma, step = summed.sigma, summed.step
    moved = GaussianSum(math.floor((distance * (1 - 2**-10) / step) ** 2), sigma)
    assert exact_epsilon({moved: releases}, DELTA) <= epsilon


@pytest.mark.parametrize("case", list_proved_cases(), ids=lambda case: case.name)
def test_a_proved_run_costs_at_most_its_statement(case: Case) -> None:
    vault = empty_vault(case)
    budget, statement = required_budget(case.config()), vault.statement
    assert statement.epsilon is not None
    assert statement.delta == budget.delta
    assert (statement.unit, statement.neighbouring) == (case.unit, case.neighbouring)
    assert vault.lifetime, "a run without planned charges is not proved"
    assert exact_epsilon(vault.lifetime, budget.delta) <= statement.epsilon
