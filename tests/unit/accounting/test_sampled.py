"""Sampled charge: its terms, its cost, and a query for the cost at every charge."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.sampled import SampledGaussian, is_affordable, sampled_epsilon
from sottovoce.privacy.accounting.units import Units

POISSON = SampledGaussian(2**24, 2**12, "poisson", 10, 1000, "add-remove")
FIXED = replace(POISSON, sampling="without-replacement", neighbouring="replace-one")


def test_a_thousand_sampled_releases_match_the_oracle() -> None:
    assert sampled_epsilon(0.0, 0.0, {POISSON: 1000}, 1e-5) == pytest.approx(1.82824, rel=2e-3)
    other = replace(POISSON, neighbouring="replace-one")
    assert sampled_epsilon(0.0, 0.0, {other: 1000}, 1e-5) == pytest.approx(2.84345, rel=2e-3)


def test_a_fixed_batch_size_costs_more_than_either_direction_and_less_than_no_sampling() -> None:
    halved = replace(POISSON, sensitivity_squared=2**26)  # add-remove with half the multiplier
    one_way = sampled_epsilon(0.0, 0.0, {halved: 100}, 1e-5)
    assert one_way < sampled_epsilon(0.0, 0.0, {FIXED: 100}, 1e-5) < 1.3 * one_way


def test_sampling_everything_costs_no_more_than_no_sampling() -> None:
    everything = replace(POISSON, batch=7, of=7)
    mu = math.sqrt(50 * 2**24 / (2**24 - 16))
    assert sampled_epsilon(0.0, 0.0, {everything: 50}, 1e-5) == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-9)


def test_gaussian_and_pure_charges_compose_with_a_sampled_one() -> None:
    alone = sampled_epsilon(0.0, 0.0, {POISSON: 300}, 1e-5)
    assert sampled_epsilon(0.0, 0.25, {POISSON: 300}, 1e-5) == pytest.approx(alone + 0.25)
    assert alone < sampled_epsilon(0.04, 0.0, {POISSON: 300}, 1e-5) < alone + gaussian_epsilon(0.2, 1e-6)
    assert sampled_epsilon(2.0, 0.5, {}, 1e-5) == pytest.approx(gaussian_epsilon(math.sqrt(2.0), 1e-5) + 0.5)


def test_rates_are_reduced_and_units_do_not_affect_the_cost() -> None:
    same = replace(POISSON, batch=1, of=100, units=Units(((3, 9),)))
    assert same.cost_key == POISSON.cost_key
    assert same.terms != POISSON.terms
    both = sampled_epsilon(0.0, 0.0, {POISSON: 400, same: 600}, 1e-5)
    assert both == sampled_epsilon(0.0, 0.0, {POISSON: 1000}, 1e-5)
    assert len({POISSON.cost_key, FIXED.cost_key, replace(POISSON, batch=11).cost_key}) == 3


def test_a_ledger_reads_its_own_terms() -> None:
    for event in (POISSON, FIXED, replace(FIXED, units=Units(((0, 4), (7, 7))))):
        assert parse_event(event.terms) == event
        assert event.terms == json.dumps(json.loads(event.terms), sort_keys=True, separators=(",", ":"))
        assert (event.mu_squared, event.epsilon) == (0.0, 0.0)


def test_too_little_noise_guarantees_nothing() -> None:
    for sigma in (0, 4, 100):
        assert sampled_epsilon(0.0, 0.0, {replace(POISSON, sigma=sigma): 1}, 1e-5) == math.inf
    assert sampled_epsilon(math.inf, 0.0, {POISSON: 1}, 1e-5) == math.inf


@pytest.mark.parametrize(
    "changes",
    [
        {"sensitivity_squared": 0},
        {"sigma": -1},
        {"batch": 0},
        {"batch": 1001},
        {"sampling": "shuffled"},
        {"neighbouring": "both"},
        {"sampling": "without-replacement"},
    ],
    ids=str,
)
def test_invalid_charges_are_not_events(changes: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError):
        replace(POISSON, **changes)


def test_two_relations_do_not_compose() -> None:
    with pytest.raises(PrivacyError, match="compose"):
        sampled_epsilon(0.0, 0.0, {POISSON: 1, FIXED: 1}, 1e-5)


def test_affordability_of_the_next_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """All charges in a budget, one by one: as many as the exact answer allows, with few computations."""
    from sottovoce.privacy.accounting import accountant

    requested = 0
    curve = accountant._curve

    def count_calls(*arguments: Any) -> Any:
        nonlocal requested
        requested += 1
        return curve(*arguments)

    monkeypatch.setattr(accountant, "_curve", count_calls)
    charged = 0
    while is_affordable(1.5, 1e-3, 0.1, {POISSON: charged + 1}, 1.1e-6):
        charged += 1
    assert charged > 300
    assert requested < charged / 3
    assert sampled_epsilon(1e-3, 0.1, {POISSON: charged}, 1.1e-6) <= 1.5
    assert sampled_epsilon(1e-3, 0.1, {POISSON: charged + 1}, 1.1e-6) > 1.5


@pytest.mark.process
def test_a_closed_form_ledger_needs_no_distributions() -> None:
    import subprocess
    import sys

    code = "import sottovoce.privacy.accounting.sampled, sottovoce.privacy.accounting.events, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sottovoce.privacy.accounting.pld", "sottovoce.privacy.accounting.accountant", "scipy", "numpy"} & set(
        loaded
    )
