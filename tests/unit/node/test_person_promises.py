"""A person with several units: every printed ε is at least an exact computation by another library."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.node.local_vault import preview_statement
from sottovoce.privacy.accounting.events import CellSum, GaussianSum
from sottovoce.privacy.accounting.gaussian import format_rounded_up
from sottovoce.privacy.accounting.sampled import SampledGaussian
from sottovoce.privacy.accounting.units import Units, overlap
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.reports.explain import describe_person_promise, epsilon_in_separate_releases, person_promises

DELTA = 1e-5
CELLS = {"small": {"min": 4, "max": 9, "colluding": 1}, "large": {"min": 30, "max": 64, "colluding": 5}}


def configuration(
    learner: str, unit: str, *, cell: str | None = None, epsilon: float = 1.0, neighbouring: str = "add-remove"
) -> AgentConfig:
    privacy: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "unit": unit, "neighbouring": neighbouring}
    if cell is not None:
        privacy |= {"noise": "cell", "cell": CELLS[cell]}
    tables: dict[str, dict[str, Any]] = {
        "agent": {"state": "."},
        "data": {"source": "digits", "features": 64, "classes": 10, "expected_records": 100.0},
        "learner": {"name": learner},
        "privacy": privacy,
    }
    if unit == "window":
        tables["data"]["windows"] = [0, 365]
    return config_from_tables(tables, "a test")


def printed(promise: dict[str, Any], words: str) -> float | None:
    """Return the ε in the printed line for units that are combined as these words say; None if there is no such ε."""
    text = describe_person_promise(promise, in_task=False)
    found = re.search(r"ε = ([0-9.e+]+), " + words, text)
    return None if found is None else float(found[1])


def cell_noise(config: AgentConfig) -> list[float]:
    """Return the noise multiplier of one sum for every roster size: honest noise by the sensitivity of one unit."""
    family, budget = build_family(config), required_budget(config)
    if isinstance(family.terms, MeanTerms):
        mechanism = family.terms.cell_mechanism(budget)
    else:
        assert isinstance(family.terms, CellGradientTerms)
        assert family.kernel is not None
        mechanism = family.terms.mechanism(family.kernel, budget, by_kernel=budget.unit == "record")
    cell = mechanism.cell
    return [
        math.sqrt(cell.honest_shares(members)) * mechanism.share(members) / math.sqrt(mechanism.sensitivity_squared)
        / math.sqrt(mechanism.rounds)
        for members in range(cell.least, cell.most + 1)
    ]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("learner, unit", [("average", "device"), ("group-sgd", "device"), ("group-sgd", "record")])
@pytest.mark.parametrize("epsilon, neighbouring", [(1.0, "add-remove"), (0.3, "replace-one"), (4.0, "add-remove")])
def test_units_in_a_secure_sum_move_it_together(
    cell: str, learner: str, unit: str, epsilon: float, neighbouring: str
) -> None:
    config = configuration(learner, unit, cell=cell, epsilon=epsilon, neighbouring=neighbouring)
    for promise in person_promises(config):
        assert printed(promise, "in separate releases") is None
        stated = printed(promise, "in the same releases")
        assert stated is not None
        exact = [GaussianPrivacyLoss(noise, sensitivity=promise["units"]) for noise in cell_noise(config)]
        assert max(loss.get_delta_for_epsilon(stated) for loss in exact) <= DELTA
        assert max(loss.get_delta_for_epsilon(stated * 0.995) for loss in exact) > DELTA, "not a needless loss"


def test_figures_of_a_person_with_several_devices_in_a_secure_sum() -> None:
    lines = [
        describe_person_promise(promise, in_task=False)
        for promise in person_promises(configuration("average", "device", cell="large"))
    ]
    assert lines == ["2 devices: ε = 2.155, in the same releases", "5 devices: ε = 6.167, in the same releases"]


@pytest.mark.parametrize(
    "learner, unit, words",
    [
        ("clipd2p", "record", {"in the same releases"}),
        ("clipd2p", "window", {"in the same releases"}),
        ("clipd2p", "device", {"in separate releases"}),
        ("average", "device", {"in separate releases"}),
        pytest.param("dp-dpsgd", "record", {"in the same releases"}, marks=pytest.mark.papers),
    ],
)
@pytest.mark.parametrize("epsilon, neighbouring", [(1.0, "add-remove"), (3.0, "replace-one")])
def test_units_with_noise_of_their_own_device(
    learner: str, unit: str, words: set[str], epsilon: float, neighbouring: str
) -> None:
    config = configuration(learner, unit, epsilon=epsilon, neighbouring=neighbouring)
    budget = required_budget(config)
    lifetime = preview_statement(config.data, budget, build_family(config))[1]
    event, count = next(iter(lifetime.items()))
    for promise in person_promises(config):
        units = promise["units"]
        for combination in ("in the same releases", "in separate releases"):
            stated = printed(promise, combination)
            if combination not in words:
                assert stated is None
            elif stated is not None and units <= 30:
                together = combination == "in the same releases"
                if isinstance(event, GaussianSum):
                    mu_squared = sum(
                        times * charge.sensitivity_squared / charge.sigma**2
                        for charge, times in lifetime.items()
                        if isinstance(charge, GaussianSum)
                    )
                    noise = 1 / math.sqrt(mu_squared * (1 if together else units))
                    loss = GaussianPrivacyLoss(noise, sensitivity=units if together else 1)
                    assert loss.get_delta_for_epsilon(stated) <= DELTA
                elif units == 2:
                    assert isinstance(event, SampledGaussian)
                    assert stated >= smallest_epsilon_of_pairs(event, count)


def smallest_epsilon_of_pairs(event: SampledGaussian, count: int) -> float:
    """Return a lower bound on ε of two units that are sampled independently in the same sums."""
    rate = event.batch / event.of
    sampled = from_mixture_gaussian_mechanism(
        event.sigma / math.sqrt(event.sensitivity_squared),
        [0, 1, 2],
        [(1 - rate) ** 2, 2 * rate * (1 - rate), rate**2],
        pessimistic_estimate=False,
        value_discretization_interval=1e-3,
    )
    return float(sampled.self_compose(count).get_epsilon_for_delta(DELTA))


def test_the_total_of_several_tasks_is_at_least_the_exact_one() -> None:
    """Two tasks, in secure sums and with local noise; the ledger counts a replacement as two of their changes."""
    ledger, squares = Ledger.in_memory("meter-17", Budget(9.0, DELTA, "device", "replace-one")), 0.0
    tasks: list[tuple[float, CellSum | GaussianSum]] = [
        (1.0, CellSum(10**10, 120_000, 21)),
        (2.0, GaussianSum(10**10, 430_000)),
    ]
    for epoch, (epsilon, event) in enumerate(tasks, 1):
        ledger.take_up(Mandate(epoch, Budget(epsilon, DELTA, "device", "add-remove"), b"task"))
        assert ledger.charge(bytes([epoch]) * 32, event)
        variance = event.honest * event.share**2 if isinstance(event, CellSum) else event.sigma**2
        squares += 4 * event.sensitivity_squared / variance
    stated = float(format_rounded_up(ledger.spending().epsilon))
    exact = GaussianPrivacyLoss(1 / math.sqrt(squares))
    assert exact.get_delta_for_epsilon(stated) <= DELTA < exact.get_delta_for_epsilon(stated * 0.998)


@pytest.mark.parametrize("joined", [1, 7, 30])
@pytest.mark.parametrize("units", [2, 7, 30])
def test_consecutive_days_of_a_feed_share_its_sums(units: int, joined: int) -> None:
    """A device that joins after some days takes 24 steps over them, and then one a day over all days with budget left.

    The ledger itself decides which days these are. The stated ε covers the exact one; that of separate releases is far
    below it.
    """
    config = configuration("clipd2p", "window", epsilon=2.0)
    budget = required_budget(config)
    ((event, steps),) = preview_statement(config.data, budget, build_family(config))[1].items()
    assert isinstance(event, GaussianSum)
    ledger, squares = Ledger.in_memory("meter-17", budget), 0.0
    for query, last in enumerate([joined - 1] * (steps // 2) + list(range(joined, 90))):
        covered = ledger.payable_units(replace(event, units=Units(((0, last),))))
        assert covered is not None
        assert ledger.charge(query.to_bytes(32, "big"), replace(event, units=covered))
        changed = sum(overlap(covered, Units(((day, day),))) is not None for day in range(units))
        squares += changed**2 * event.sensitivity_squared / event.sigma**2
    exact = GaussianPrivacyLoss(1 / math.sqrt(squares))
    (promise,) = (promise for promise in person_promises(config) if promise["units"] == units)
    stated = printed(promise, "in the same releases")
    assert stated is not None
    assert exact.get_delta_for_epsilon(stated) <= DELTA
    assert exact.get_delta_for_epsilon(epsilon_in_separate_releases({event: steps}, units, DELTA)) > 10 * DELTA


@pytest.mark.parametrize("epsilon", [1e-7, 0.3333, 1.0, 1.99965, 2.0, 2.15467, 85.9461, 99.996, 499.99])
def test_a_printed_epsilon_is_never_smaller_than_the_computed_one(epsilon: float) -> None:
    assert epsilon <= float(format_rounded_up(epsilon)) <= epsilon * 1.001
    assert format_rounded_up(epsilon * (1 + 2**-50)) == format_rounded_up(epsilon)
