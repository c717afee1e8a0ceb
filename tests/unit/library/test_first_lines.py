"""What users of Flower, gossipy and scikit-learn type first: it works, or one error says what to type."""

import itertools
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sottovoce
import sottovoce_lab as lab
from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.push_sum.settings import PushSumSettings
from sottovoce_lab.library.wording import ESTIMATOR, SIMULATE, in_arguments
from sottovoce_lab.simulator.partition import partition
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.run_facts import mixing_warnings
from sottovoce_lab.testbed.run_spec import build_run_spec

DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(300, 4))
LABELS = (ROWS[:, 0] > 0).astype(np.int64)
PARTS = [(ROWS[i::3], LABELS[i::3]) for i in range(3)]
simulate_anything: Any = lab.simulate


def run_quickly(data: Any = (ROWS, LABELS), **arguments: Any) -> lab.Runs:
    defaults = {"bounds": (-5, 5), "classes": 2, "cycles": 4, "agents": 3, "baselines": False}
    return simulate_anything(data, **{**defaults, **arguments})  # type: ignore[no-any-return]


def test_data_already_split_stay_with_their_devices() -> None:
    (run,) = run_quickly(PARTS, agents=None)
    assert (run.agents, run.models.shape[0]) == (3, 3)
    (same,) = run_quickly(tuple(PARTS), agents=None)
    np.testing.assert_array_equal(run.models, same.models)
    groups = np.array([2, 0, 1, 0, 2])
    shares = partition("each-group", np.zeros(5, dtype=np.int64), 3, 0, groups)
    assert [share.tolist() for share in shares] == [[1, 3], [2], [0, 4]]
    with pytest.raises(sottovoce.DataError, match="3 groups"):
        partition("each-group", np.zeros(5, dtype=np.int64), 2, 0, groups)


def test_the_records_of_a_group_stay_together() -> None:
    households = np.array(["a", "b", "c", "d", "e"])[np.arange(300) % 5]
    (each,), (fewer,) = (run_quickly(groups=households, agents=agents) for agents in (None, 2))
    assert (each.agents, fewer.agents) == (5, 2)
    assert each.document["run"]["partition"] == "each-group"
    assert fewer.document["run"]["partition"] == "by-group"


def test_features_and_labels_may_be_two_arguments_and_labels_may_be_text() -> None:
    (two,) = simulate_anything(ROWS, LABELS, bounds=(-5, 5), classes=2, cycles=4, agents=3, baselines=False)
    np.testing.assert_array_equal(two.models, run_quickly()[0].models)
    named = np.where(LABELS == 1, "yes", "no").astype(object)
    assert run_quickly((ROWS, named), classes=None)[0].privacy["status"] == "not proved"


def test_a_number_to_predict_has_errors_in_its_own_unit() -> None:
    numbers = 10 + ROWS @ np.array([1.0, 2.0, 0.0, 0.0])
    (run,) = run_quickly((ROWS, numbers), classes=None, target=(0, 20), epsilon=math.inf, cycles=20)
    assert run.measure == "mae_mean"
    assert 0 <= run.final["mae_least_squares"] < 0.1
    assert run.final["mae_mean"] < np.abs(numbers - numbers.mean()).mean()
    with pytest.warns(lab.RangeWarning, match="target"):
        run_quickly((ROWS, numbers), classes=None, target=(10, 20))


def test_any_number_of_devices_is_allowed() -> None:
    (run,) = run_quickly(agents=100, cycles=2)
    assert run.models.shape[0] == 100
    assert not [text for text in run.warnings if "pairwise" in text]


def test_a_fleet_too_large_for_contributions_averages_in_pairs_and_says_so() -> None:
    def plan_for(agents: int) -> Plan:
        return plan(build_run_spec({"data": "digits", "agents": agents}, "test").options())

    assert settings_of(plan_for(1025).config, PushSumSettings).contributors == 1024
    assert settings_of(plan_for(65).config, PushSumSettings).contributors is None
    assert settings_of(plan_for(1026).config, PushSumSettings).mixing == "pairwise"
    assert [len(mixing_warnings(plan_for(agents))) for agents in (65, 1025, 1026)] == [0, 0, 1]


def test_the_network_and_its_faults_are_arguments() -> None:
    (run,) = run_quickly(agents=6, topology="ring", faults=["loss=0.2", "delay=1s"])
    assert run.document["run"]["topology"] == "ring"
    assert run.document["faults"] == ["loss=0.2", "delay=1s"]


def test_a_callback_sees_each_cycle() -> None:
    seen: list[lab.Progress] = []
    (run,) = run_quickly(callback=seen.append)
    assert [progress.cycle for progress in seen] == run.cycles.tolist()
    assert [progress.measures["accuracy_mean"] for progress in seen] == run.curves["accuracy_mean"].tolist()
    with pytest.raises(sottovoce.UsageError, match="n_jobs"):
        run_quickly(callback=seen.append, n_jobs=2)


@pytest.mark.process
def test_runs_in_several_processes_are_the_same_runs() -> None:
    one, several = (run_quickly(seed=[0, 1], n_jobs=jobs) for jobs in (1, 2))
    for run, same in zip(one, several, strict=True):
        np.testing.assert_array_equal(run.models, same.models)


@pytest.mark.slow
def test_each_output_says_what_a_device_reaches_alone() -> None:
    runs = run_quickly(seed=[0, 1], baselines=True)
    for run in runs:
        assert run.alone is not None
        assert run.alone_private is not None
        assert 0.5 < run.alone <= 1
        assert f"{run.alone:.3g}" in run.summary
        assert repr(run) == f"<Run {run.summary}>"
        assert len(repr(run)) < 300
    assert "alone" in runs.summary
    assert runs.summary in repr(runs)
    axes = runs.plot()
    assert axes.get_title() == runs.summary
    assert {"a device alone, no noise", "majority class"} <= {line.get_label() for line in axes.get_lines()}
    assert run_quickly(epsilon=math.inf, baselines=True)[0].alone_private is None


def test_runs_are_saved_loaded_and_reported(tmp_path: Path) -> None:
    runs = run_quickly(epsilon=[1, math.inf])
    runs.save(tmp_path / "runs.npz")
    loaded = lab.Runs.load(tmp_path / "runs.npz")
    assert repr(loaded) == repr(runs)
    for run, same in zip(runs, loaded, strict=True):
        np.testing.assert_array_equal(run.models, same.models)
        np.testing.assert_array_equal(run.curves["loss_mean"], same.curves["loss_mean"])
        assert (run.epsilon, run.privacy, run.final) == (same.epsilon, same.privacy, same.final)
    loaded.report(tmp_path / "sweep.html")
    loaded[:1].report(tmp_path / "run.html")
    assert all("<svg" in (tmp_path / name).read_text() for name in ("sweep.html", "run.html"))


@pytest.mark.parametrize("content", [None, b"", b"no runs", b"PK\x03\x04 cut off"])
def test_a_file_without_runs_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "absent.npz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(sottovoce.DataError, match=r"absent\.npz"):
        lab.Runs.load(file)


def test_the_labels_of_budgets_do_not_overlap() -> None:
    axes = run_quickly(epsilon=[0.5, 1, 1.05, 8]).plot()
    axes.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels(which="both") if label.get_text()]
    assert len(boxes) == 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_and_scores_agree_with_the_predicted_labels(classes: int) -> None:
    labels = np.digitize(ROWS[:, 0], [-0.5, 0.5][: classes - 1])
    fleet = lab.FleetClassifier(agents=3, cycles=6, bounds=(-5, 5), classes=range(classes)).fit(ROWS, labels)
    probabilities, scores = fleet.predict_proba(ROWS), fleet.decision_function(ROWS)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert probabilities.shape == (300, classes)
    predicted = (scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(predicted, fleet.predict(ROWS))
    np.testing.assert_array_equal(probabilities.argmax(axis=1), predicted)


@pytest.mark.parametrize(
    "line, names",
    [
        (lambda: simulate_anything(ROWS), ["(X, y)"]),
        (lambda: simulate_anything({"X": ROWS, "y": LABELS}), ["dict", "(X, y)"]),
        (lambda: simulate_anything([(ROWS, LABELS), (ROWS[:, :2], LABELS)]), ["columns"]),
        (lambda: simulate_anything([(ROWS, LABELS[:5]), (ROWS, LABELS)]), ["device 0"]),
        (lambda: run_quickly(groups=[1, 2]), ["groups", "300"]),
        (lambda: run_quickly(PARTS, groups=LABELS), ["groups"]),
        (lambda: run_quickly(PARTS, agents=4), ["agents=4", "3 groups"]),
        (lambda: run_quickly((ROWS, ROWS[:, 0]), bounds=None, classes=None, target=(-5, 5)), ["bounds="]),
        (lambda: run_quickly((ROWS, ROWS[:, 0]), target=(-5, 5)), ["classes=2", "target="]),
        (lambda: run_quickly("digits", groups=LABELS), ["groups", "omit"]),
        (lambda: run_quickly(epsilon=None), ["epsilon=None", "math.inf"]),
        (lambda: run_quickly(epsilon="1"), ["epsilon='1'"]),
        (lambda: run_quickly(seed=1.5), ["seed=1.5"]),
        (lambda: run_quickly(agents="3"), ["agents"]),
        (lambda: run_quickly(learner="fedavg"), ['learner="fedavg"', "clipd2p"]),
        (lambda: run_quickly(learner="group-sgd"), ["agents=3", "agents=8", "settings="]),
        (lambda: run_quickly(learner="dp-dpsgd", settings={"fidelity": "paper"}), ["settings={", "math.inf"]),
        (lambda: run_quickly(num_clients=3), ["num_clients", "agents="]),
        (lambda: run_quickly(num_rounds=3), ["num_rounds", "cycles="]),
        (lambda: run_quickly(topology="cube"), ["cube"]),
        (lambda: run_quickly(faults="loss"), ["loss"]),
    ],
)
def test_what_cannot_work_raises_one_error_without_options_of_the_command_line(
    line: Callable[[], Any], names: list[str]
) -> None:
    with pytest.raises(sottovoce.SottovoceError) as caught, warnings.catch_warnings():
        line()
    assert all(name in str(caught.value) for name in names)
    assert "--" not in str(caught.value)


def test_options_are_rewritten_as_arguments() -> None:
    text = "--agents 3: use --agents 8, or --set privacy.cell.min=3; omit --seed 1; --fault loss=0.1"
    assert in_arguments(text, SIMULATE) == (
        'agents=3: use agents=8, or settings={"privacy.cell.min": 3}; omit seed 1; faults="loss=0.1"'
    )
    assert in_arguments("--seed 1, --topology full", ESTIMATOR) == 'random_state=1, settings={"topology": "full"}'


@pytest.mark.parametrize("name, advised", [("GossipSimulator", "simulate"), ("compose", "sottovoce.compose")])
def test_a_name_of_another_library_is_answered(name: str, advised: str) -> None:
    with pytest.raises(AttributeError, match=advised):
        getattr(lab, name)
