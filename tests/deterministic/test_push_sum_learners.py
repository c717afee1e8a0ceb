"""Push-sum learners under the virtual clock: as good as one machine without noise, and exact if they only average."""

from typing import Any

import numpy as np
import pytest
from sottovoce.data import Records, load, prepare_records
from sottovoce.kernels.softmax import Softmax
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.progress import Watcher

AGENTS, CYCLES, STEPS = 8, 30, 24


def make_plan(
    learner: str, *, epsilon: float | None = None, cycles: int = CYCLES, data: str = "digits", **overrides: Any
) -> Plan:
    fault_options = overrides.pop("faults", [])
    options: dict[str, Any] = {
        "agents": AGENTS, "learner": learner, "fidelity": "sound", "model": None, "data": "digits",
        "transport": "memory", "epsilon": epsilon, "delta": 1e-5, "cycles": cycles, "period": 1.0,
        "topology": "exponential", "seed": 3,
        "settings": {},
    }  # fmt: skip
    return plan(Options(**{**options, **overrides}, faults=Faults.parse(fault_options), fault_specs=fault_options))


def _centralised(run_plan: Plan, step_size: float) -> float:
    """Return the accuracy of centralised gradient descent on all records, with as many gradients per record."""
    records_by_agent = [prepare_records(raw, run_plan.transform, run_plan.bounds) for raw in run_plan.raw]
    features = np.concatenate([part.features for part in records_by_agent])
    labels = np.concatenate([part.labels for part in records_by_agent])
    kernel = Softmax(features.shape[1], run_plan.classes)
    model = kernel.initial(0)[np.newaxis]
    for step in range(STEPS):
        rate = step_size * (1 - 0.9 * step / (STEPS - 1))
        model = model - rate * kernel.gradients(model, features[np.newaxis], labels[np.newaxis])[0].mean(axis=0)
    return float((kernel.predict(model, run_plan.test.features)[0] == run_plan.test.labels).mean())


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["push-sum", "clipd2p", "constd2p", "adad2p"])
def test_noise_free_accuracy_is_within_a_point_of_centralised_training(learner: str) -> None:
    run_plan = make_plan(learner, settings={"learner.steps": STEPS})
    report = memory.run(run_plan, Watcher()).document()
    assert report["privacy"]["status"] == "none"
    assert report["final"]["accuracy_mean"] > _centralised(run_plan, 20.0) - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("clipping", ["constant", "decay", "quantile", "automatic"])
def test_every_clipping_learns_at_a_proved_epsilon(clipping: str) -> None:
    run_plan = make_plan("adad2p", epsilon=8.0, settings={"learner.steps": STEPS, "learner.clipping": clipping})
    report = memory.run(run_plan, Watcher()).document()
    assert report["privacy"]["status"] == "proved"
    assert 7.9 < report["privacy"]["spent_epsilon_max"] <= 8.0
    assert report["final"]["accuracy_mean"] > 0.85


def test_noise_free_averaging_is_exact_despite_loss() -> None:
    """Avoid clipping: no vector is longer than 16·8. Releases are on a grid of 2^-17, shares on 2^-16."""
    run_plan = make_plan("average", cycles=120, settings={"learner.clip": 200.0}, faults=["loss=0.3"])
    final = memory.run(run_plan, Watcher()).document()["final"]
    assert final["rmse_clip"] == 0
    assert final["rmse_theory"] == 0
    assert final["rmse_max"] < 2**-16
    records: Records = load("digits").records
    assert sum(map(len, run_plan.raw)) == len(records), "no test records are held out"


def test_the_averaging_error_matches_theory() -> None:
    """Compare with σ/√n χ(64), which is within 30 % of its mean in 99.9 % of runs."""
    run_plan = make_plan("average", epsilon=4.0, cycles=60, settings={"learner.clip": 200.0})
    report = memory.run(run_plan, Watcher()).document()
    final, privacy = report["final"], report["privacy"]
    assert 0.7 < final["rmse_mean"] / final["rmse_theory"] < 1.3
    assert (privacy["unit"], privacy["releases"]) == ("device", AGENTS)
    assert privacy["spent_epsilon_max"] <= 4.0
    assert any("true mean" in warning for warning in report["warnings"])


def test_paper_constd2p_warns_if_its_bound_was_measured() -> None:
    settings = {"privacy.allow_unproved": True, "learner.steps": 5}
    run_plan = make_plan("constd2p", epsilon=2.0, cycles=6, fidelity="paper", settings=settings)
    assert run_plan.gradient_bound is not None
    report = memory.run(run_plan, Watcher()).document()
    assert report["privacy"]["status"] == "refuted"
    assert any("no ledger was charged" in warning for warning in report["warnings"])
    declared = make_plan(
        "constd2p", epsilon=2.0, fidelity="paper", settings={**settings, "learner.gradient_bound": 1.5}
    )
    assert declared.gradient_bound is None


_RELEASED = {"learner.prior": [8.0] * 64, "learner.harmonics": 5, "learner.clip": 40.0, "learner.shape_clip": 30.0}


@pytest.mark.parametrize("noise", ["local", "cell"])
def test_the_error_of_a_mean_with_prior_and_harmonics_matches_theory(noise: str) -> None:
    """Compare with χ(11), within 45 % of its mean in 99.9 % of runs, after adding the clipping error."""
    cell = {} if noise == "local" else {"privacy.noise": "cell", "privacy.cell": {"min": 4, "max": 8, "colluding": 1}}
    topology = "exponential" if noise == "local" else "full"
    run_plan = make_plan("average", epsilon=30.0, cycles=60, topology=topology, settings={**_RELEASED, **cell})
    report = memory.run(run_plan, Watcher()).document()
    final = report["final"]
    assert report["privacy"]["status"] == "proved"
    assert report["privacy"]["spent_epsilon_max"] <= 30.0
    assert 0.6 < final["rmse_mean"] / np.hypot(final["rmse_theory"], final["rmse_clip"]) < 1.4
    assert final["rmse_clip"] < 0.9 * final["rmse_prior"], "the harmonics reduce the error"
