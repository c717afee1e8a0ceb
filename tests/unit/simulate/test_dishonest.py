"""Simulated dishonest agents: each lies as its name states, and a fleet with contributions withstands it."""

import numpy as np
import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.simulator.faults import LIES, Faults
from sottovoce_lab.simulator.informed import AIMS
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher

pytestmark = pytest.mark.slow

AGENTS, CYCLES = 8, 40


def options(mixing: str | None, *faults: str, transport: str = "memory", dishonest: float | None = None) -> Options:
    own = {"learner.mixing": mixing, "learner.steps": 30, "learner.dishonest": dishonest}
    return Options(
        agents=AGENTS, learner="clipd2p", fidelity="sound", model=None, data="digits", transport=transport,
        epsilon=8.0, delta=1e-5, cycles=CYCLES, period=1.0, topology="full", seed=3, faults=Faults.parse(faults),
        fault_specs=list(faults), settings={key: value for key, value in own.items() if value is not None},
    )  # fmt: skip


def accuracy(mixing: str | None, *faults: str, dishonest: float | None = None) -> float:
    return float(
        memory.run(plan(options(mixing, *faults, dishonest=dishonest)), Watcher()).document()["final"]["accuracy_mean"]
    )


@pytest.fixture(scope="module")
def accuracy_alone() -> float:
    """Return the honest agents' accuracy without the others."""
    return accuracy("contributions", "dishonest=0.25@silent")


FIXED = [
    lie for lie in LIES if lie not in ("silent", "mimic") and not any(aim in lie for aim in AIMS)
]  # they ignore what would harm the others most


@pytest.fixture(scope="module")
def accuracy_without_one() -> float:
    """Return the honest agents' accuracy without one other agent."""
    return accuracy(None, "dishonest=0.125@silent")


@pytest.mark.parametrize("lie", FIXED)
def test_by_default_one_dishonest_agent_costs_the_others_little(lie: str, accuracy_without_one: float) -> None:
    assert accuracy(None, f"dishonest=0.125@{lie}") > accuracy_without_one - 0.03


@pytest.mark.parametrize("lie", FIXED)
def test_the_robust_mean_limits_a_dishonest_quarter(lie: str, accuracy_alone: float) -> None:
    assert accuracy_alone > 0.85
    assert accuracy(None, f"dishonest=0.25@{lie}", dishonest=0.25) > accuracy_alone - 0.05


def test_one_informed_liar_costs_the_others_less_than_a_tenth(accuracy_without_one: float) -> None:
    """Before contributions' singular values and moves were bounded, it cost them more than a third."""
    assert accuracy(None, "dishonest=0.125@ascent") > accuracy_without_one - 0.09


@pytest.mark.parametrize("lie", ["class-answers", "trigger-answers", "mimic"])
def test_weaker_informed_lies_cost_the_others_little(lie: str, accuracy_without_one: float) -> None:
    assert accuracy(None, f"dishonest=0.125@{lie}") > accuracy_without_one - 0.03


def test_one_informed_liar_ruins_pairs(accuracy_without_one: float) -> None:
    assert accuracy("pairwise", "dishonest=0.125@ascent") < accuracy_without_one / 2


def test_a_late_attack_is_declined(accuracy_alone: float) -> None:
    """Its last permitted signatures move its contribution by at most two steps of noise."""
    assert accuracy(None, "dishonest=0.25@late") > accuracy_alone - 0.03


def test_push_sum_does_not_withstand_the_same_attacks(accuracy_alone: float) -> None:
    assert accuracy("push-sum", "dishonest=0.25@tenfold") < accuracy_alone / 2
    assert accuracy("push-sum", "dishonest=0.25@flip") < accuracy_alone - 0.05


@pytest.mark.parametrize("lie", ["tenfold", "noise", "giant", "silent"])
def test_pairwise_averaging_ignores_distant_models(accuracy_alone: float, lie: str) -> None:
    assert accuracy("pairwise", f"dishonest=0.25@{lie}") > accuracy_alone - 0.03


@pytest.mark.parametrize("lie", ["close", "opposite"])
def test_pairwise_averaging_loses_a_third_to_combined_attack(accuracy_alone: float, lie: str) -> None:
    assert accuracy("pairwise", f"dishonest=0.25@{lie}") < accuracy_alone * 2 / 3


@pytest.mark.parametrize("faults", [(), ("partition=0.5@cycle:5-25",), ("loss=0.3", "duplicate=0.3", "reorder=0.3")])
def test_without_dishonest_agents_all_models_are_equal_and_accurate(faults: tuple[str, ...]) -> None:
    final = memory.run(plan(options("contributions", *faults)), Watcher()).document()["final"]
    assert final["accuracy_min"] == pytest.approx(final["accuracy_max"])
    assert final["accuracy_mean"] > accuracy("push-sum") - 0.03


def test_the_report_states_which_agents_were_measured() -> None:
    report = memory.run(plan(options("contributions", "dishonest=0.25@zero")), Watcher()).document()
    assert "2 of 8 agents are dishonest (zero); only the others are measured" in report["warnings"]


def test_unsupported_attacks_are_reported() -> None:
    with pytest.raises(UsageError, match=r"--set learner\.mixing=contributions"):
        accuracy("push-sum", "dishonest=0.25@close")
    with pytest.raises(UsageError, match="ascent-answers"):
        accuracy("push-sum", "dishonest=0.25@ascent")
    with pytest.raises(UsageError, match="--transport memory"):
        options("contributions", "dishonest=0.25@zero", transport="grpc")
    with pytest.raises(UsageError, match=r"agent.*dishonest"):
        options("contributions", "dishonest=0.01@zero")
    with pytest.raises(UsageError, match="silent, flip"):
        Faults.parse(["dishonest=0.5@lying"])


@pytest.mark.parametrize("mixing", ["pairwise", "push-sum", "contributions"])
def test_slow_vault_only_reduces_number_of_steps(mixing: str) -> None:
    slow, usual = (
        memory.run(plan(options(mixing, *faults)), Watcher()).document() for faults in (("vault=2s±1s",), ())
    )
    assert 0 < slow["privacy"]["releases"] <= usual["privacy"]["releases"], "push-sum waits, others keep mixing"
    assert slow["final"]["accuracy_mean"] > 0.3
    with pytest.raises(UsageError, match="--transport memory"):
        options(mixing, "vault=2s", transport="grpc")


def test_a_seed_yields_the_same_attacks() -> None:
    first, second = (accuracy("contributions", "dishonest=0.25@noise") for _ in range(2))
    assert np.isclose(first, second, rtol=0, atol=0)
