"""Simulations from a program: arrays in, curves out, and clear errors."""

import math
from typing import Any

import numpy as np
import pytest
import sottovoce
import sottovoce_lab as lab
from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce.data import load
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_spec import build_run_spec

ROWS = np.random.default_rng(0).normal(size=(300, 4))
LABELS = (ROWS[:, 0] > 0).astype(np.int64)


def simulate_digits(**arguments: Any) -> lab.Runs:
    return lab.simulate(
        (ROWS, LABELS), **{"bounds": (-5, 5), "classes": 2, "agents": 3, "cycles": 8, "baselines": False, **arguments}
    )


def test_each_learner_budget_and_seed_has_a_run() -> None:
    runs = simulate_digits(learner=["clipd2p", "dp-dpsgd"], epsilon=[1, math.inf], seed=[4, 5])
    assert [(run.learner, run.epsilon, run.seed) for run in runs] == [
        (learner, epsilon, seed) for learner in ("clipd2p", "dp-dpsgd") for epsilon in (1, math.inf) for seed in (4, 5)
    ]
    assert len(runs[2:4]) == 2
    run = runs[0]
    assert run.cycles.tolist() == list(range(run.cycles[0], 9))
    assert run.curves["accuracy_mean"].shape == run.cycles.shape
    assert run.final["accuracy_mean"] == run.curves["accuracy_mean"][-1]
    assert run.models.shape[0] == 3
    assert run.privacy["status"] == "proved"
    assert runs[2].privacy["status"] == "none"
    assert run.majority is not None
    assert 0.4 < run.majority < 0.8


def test_the_same_seed_yields_the_same_run_and_another_one_does_not() -> None:
    one, repeated, other = (simulate_digits(seed=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.models, repeated.models)
    assert not np.array_equal(one.models, other.models)


def test_undeclared_classes_and_ranges_are_said_and_nothing_is_then_proved() -> None:
    (run,) = simulate_digits(classes=None)
    assert run.privacy["status"] == "not proved"
    assert "classes" in run.privacy["reason"]
    with pytest.warns(lab.DataWarning, match="range"):
        simulate_digits(bounds=None)
    with pytest.warns(lab.DataWarning, match="outside"):
        simulate_digits(bounds=(0, 5))
    with pytest.warns(lab.DataWarning, match="δ"):
        simulate_digits(delta=0.01)


@pytest.mark.statistical
def test_without_noise_a_fleet_comes_within_two_points_of_a_central_fit_of_its_own_features() -> None:
    data = load("digits")
    (fleet,) = lab.simulate(data, agents=10, baselines=False, epsilon=math.inf)
    (little_noise,) = lab.simulate(data, agents=10, baselines=False, epsilon=8.0)
    (central,) = lab.simulate(data, agents=1, baselines=False, epsilon=math.inf, settings={"learner.clip": 2.0})
    assert fleet.final["accuracy_mean"] > max(little_noise.final["accuracy_mean"] - 0.01, 0.94)
    assert fleet.final["accuracy_mean"] > central.final["accuracy_mean"] - 0.02


def test_a_run_without_noise_takes_more_steps_unless_its_steps_or_cycles_are_set() -> None:
    free = plan(build_run_spec({"data": "digits", "epsilon": math.inf}, "test").options())
    assert (settings_of(free.config, PushSumSettings).steps, free.options.cycles > 240) == (240, True)
    for keys in ({"cycles": 30}, {"learner.steps": 12}, {"epsilon": 8.0}):
        planned = plan(build_run_spec({"data": "digits", "epsilon": math.inf, **keys}, "test").options())
        assert settings_of(planned.config, PushSumSettings).steps != 240


def test_a_data_set_and_a_spec_are_accepted() -> None:
    for data in ("breast-cancer", load("breast-cancer")):
        (run,) = lab.simulate(data, agents=3, cycles=5, settings={"learner.steps": 3})
        assert run.final["accuracy_mean"] > 0.2


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"bounds": (6, -6)}, "bounds"),
        ({"bounds": ([0, 1], 2)}, "4 features"),
        ({"learner": []}, "learner"),
        ({"learner": "absent"}, "absent"),
        ({"settings": {"learner.absent": 1}}, "learner.absent"),
    ],
)
def test_impossible_run_raises_one_error(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(sottovoce.SottovoceError, match=words):
        simulate_digits(**arguments)


def test_plots_are_against_budgets_or_against_cycles() -> None:
    axes = simulate_digits(epsilon=[1, 4], seed=range(2)).plot()
    assert (axes.get_xlabel(), axes.get_xscale()) == ("ε", "log")
    axes = simulate_digits().plot(measure="loss_mean")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cycle", "loss mean")
    with pytest.raises(sottovoce.UsageError, match="accuracy_mean"):
        simulate_digits().plot(measure="absent")


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_a_fleet_does_not_oscillate_on_nearly_equal_records(seed: int) -> None:
    """Without damped steps, these runs end at .50, .59 and .41."""
    draw = np.random.default_rng(seed)
    labels = (draw.random(2000) < 0.4).astype(int)
    features = draw.normal(0, 0.1, (2000, 12))
    features[:, 0] += 1
    features[:, 1] += 0.1 * (2 * labels - 1)
    (run,) = lab.simulate(
        (features, labels),
        agents=10,
        epsilon=30,
        seed=seed,
        bounds=(-2, 2),
        settings={"data.transform": "unit"},
        baselines=False,
    )
    assert run.final["accuracy_mean"] > 0.78


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_fleet_whose_first_steps_cancel_keeps_learning(seed: int) -> None:
    """Without full-length steps, each device declines the others' longer contributions forever: .35, majority .51."""
    draw = np.random.default_rng(seed)
    labels = draw.choice(5, 6000, p=[0.36, 0.5, 0.06, 0.05, 0.03])
    features = 0.8 + 0.05 * draw.normal(size=(6000, 12))
    features[np.arange(6000), labels] += 0.15 * draw.normal(size=6000) - 0.1
    kinds = np.eye(8)[(2 * labels + draw.integers(0, 3, 6000)) % 8] * 0.6
    table = np.clip(np.hstack([features, kinds]), 0, 1)
    transform = {"data.transform": "centre,unit,bias(0.3)"}
    (run,) = lab.simulate(
        (table, labels), agents=10, epsilon=8, seed=seed, bounds=(0, 1), settings=transform, baselines=False
    )
    assert run.final["accuracy_mean"] > 0.8
