"""Push-sum learners under the virtual clock: as good as one machine without noise, and exact if they only average."""

from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.family import prepare_records
from sottovoce.data import Records, load
from sottovoce.kernels.softmax import Softmax
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.progress import Watcher

AGENTS, CYCLES, STEPS = 8, 30, 24


def planned(
    learner: str, *, epsilon: float | None = None, cycles: int = CYCLES, data: str = "digits", **how: Any
) -> Plan:
    words = how.pop("faults", [])
    options: dict[str, Any] = {
        "agents": AGENTS, "learner": learner, "fidelity": "sound", "model": None, "data": "digits",
        "transport": "memory", "epsilon": epsilon, "delta": 1e-5, "cycles": cycles, "period": 1.0,
        "topology": "exponential", "seed": 3,
        "settings": {},
    }  # fmt: skip
    return plan(Options(**{**options, **how}, faults=Faults.parse(words), fault_words=words))


def _centralised(asked: Plan, step_size: float) -> float:
    """Accuracy of gradient descent on all records at one place, with as many gradients of each."""
    held = [prepare_records(raw, asked.transform, asked.bounds) for raw in asked.raw]
    features, labels = np.concatenate([part.features for part in held]), np.concatenate([part.labels for part in held])
    kernel = Softmax(features.shape[1], asked.classes)
    model = kernel.initial(0)[np.newaxis]
    for step in range(STEPS):
        rate = step_size * (1 - 0.9 * step / (STEPS - 1))
        model = model - rate * kernel.gradients(model, features[np.newaxis], labels[np.newaxis])[0].mean(axis=0)
    return float((kernel.predict(model, asked.test.features)[0] == asked.test.labels).mean())


@pytest.mark.parametrize("learner", ["push-sum", "clipd2p", "constd2p", "adad2p"])
def test_without_noise_all_come_within_a_point_of_one_machine(learner: str) -> None:
    asked = planned(learner, settings={"learner.steps": STEPS})
    report = memory.run(asked, Watcher()).document()
    assert report["privacy"]["status"] == "none"
    assert report["final"]["accuracy_mean"] > _centralised(asked, 20.0) - 0.01


@pytest.mark.parametrize("clipping", ["constant", "decay", "quantile", "automatic"])
def test_every_clipping_learns_at_a_proved_epsilon(clipping: str) -> None:
    asked = planned("adad2p", epsilon=8.0, settings={"learner.steps": STEPS, "learner.clipping": clipping})
    report = memory.run(asked, Watcher()).document()
    assert report["privacy"]["status"] == "proved"
    assert 7.9 < report["privacy"]["spent_epsilon_max"] <= 8.0
    assert report["final"]["accuracy_mean"] > 0.85


def test_averaging_is_exact_without_noise_whatever_is_lost() -> None:
    """No vector of digits is longer than 16·8: nothing is clipped. Releases are on a grid of 2^-17, shares on 2^-16."""
    asked = planned("average", cycles=120, settings={"learner.clip": 200.0}, faults=["loss=0.3"])
    final = memory.run(asked, Watcher()).document()["final"]
    assert final["rmse_clip"] == 0
    assert final["rmse_theory"] == 0
    assert final["rmse_max"] < 2**-16
    records: Records = load("digits").records
    assert sum(map(len, asked.raw)) == len(records), "nothing is held out: there is nothing to test on"


def test_averaging_is_as_far_off_as_its_noise() -> None:
    """64 numbers: the error follows σ/√n χ(64), which lies within 30 % of its mean but once in a thousand."""
    asked = planned("average", epsilon=4.0, cycles=60, settings={"learner.clip": 200.0})
    report = memory.run(asked, Watcher()).document()
    final, privacy = report["final"], report["privacy"]
    assert 0.7 < final["rmse_mean"] / final["rmse_theory"] < 1.3
    assert (privacy["unit"], privacy["releases"]) == ("device", AGENTS)
    assert privacy["spent_epsilon_max"] <= 4.0
    assert any("true mean" in warning for warning in report["warnings"])


def test_constd2p_to_the_letter_says_where_its_bound_is_from() -> None:
    settings = {"privacy.allow_unproved": True, "learner.steps": 5}
    asked = planned("constd2p", epsilon=2.0, cycles=6, fidelity="paper", settings=settings)
    assert asked.gradient_bound is not None
    report = memory.run(asked, Watcher()).document()
    assert report["privacy"]["status"] == "refuted"
    assert any("no ledger was charged" in warning for warning in report["warnings"])
    declared = planned("constd2p", epsilon=2.0, fidelity="paper", settings={**settings, "learner.gradient_bound": 1.5})
    assert declared.gradient_bound is None


_RELEASED = {"learner.prior": [8.0] * 64, "learner.harmonics": 5, "learner.clip": 40.0, "learner.shape_clip": 30.0}


@pytest.mark.parametrize("noise", ["local", "cell"])
def test_a_mean_in_harmonics_of_its_difference_to_a_prior_is_as_far_off_as_theory_says(noise: str) -> None:
    """11 numbers: χ(11) is within 45 % of its mean but once in a thousand; the clip's error and the noise add up."""
    cell = {} if noise == "local" else {"privacy.noise": "cell", "privacy.cell": {"min": 4, "max": 8, "colluding": 1}}
    asked = planned("average", epsilon=30.0, cycles=60, settings={**_RELEASED, **cell})
    report = memory.run(asked, Watcher()).document()
    final = report["final"]
    assert report["privacy"]["status"] == "proved"
    assert report["privacy"]["spent_epsilon_max"] <= 30.0
    assert 0.6 < final["rmse_mean"] / np.hypot(final["rmse_theory"], final["rmse_clip"]) < 1.4
    assert final["rmse_clip"] < 0.9 * final["rmse_prior"], "the harmonics tell something"
