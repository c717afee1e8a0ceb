"""An experiment's runs: their list, their storage, and one run of each kind."""

import json
from collections import Counter
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from sottovoce.data import DataSet, Records
from sottovoce.errors import UsageError
from sottovoce_lab.experiments import saved_runs
from sottovoce_lab.experiments.saved_runs import Outcome
from sottovoce_lab.papers.one_run import run_on_arrays, run_one
from sottovoce_lab.papers.prepare import prepare_data
from sottovoce_lab.papers.runs import RunPosition, batch_walks, collect_outcomes, list_runs, resolve_source
from sottovoce_lab.papers.specification import Axis, Extent, MoreSeeds, Part

from tests.unit.papers.made_up import EXTENT, outcome, spec

WALK = {
    "engine": "arrays", "fidelity": "paper", "data.source": "two-gaussians", "agents": 60, "epsilon": 20.0, "seed": 1,
    "learner.model": "pegasos", "privacy.allow_unproved": True,
}  # fmt: skip


def test_cells_that_cost_little_have_more_seeds(tmp_path: Path) -> None:
    more_seeds = [MoreSeeds(seeds=9, series=["bad"], x=[4.0]), MoreSeeds(seeds=7, panels=["made"], x=[4.0])]
    runs = list_runs(spec(), replace(EXTENT, more_seeds=more_seeds), tmp_path, print)
    counts = Counter((position.series, position.x) for position in runs)
    assert counts == {("good", 1.0): 5, ("bad", 1.0): 5, ("good", 4.0): 7, ("bad", 4.0): 9}


def test_runs_differ_only_in_panel_series_values_and_seed(tmp_path: Path) -> None:
    result = list_runs(spec(), EXTENT, tmp_path, print)
    assert len(result) == 2 * 2 * 5
    keys = result[RunPosition("made", "bad", 4.0, None, 2)]
    assert (keys["agents"], keys["learner"], keys["epsilon"], keys["seed"]) == (3, "push-sum", 4.0, 2)


def test_a_series_may_be_constant_and_vary_by_panel_or_value(tmp_path: Path) -> None:
    series = {
        "still": Part(label="", set={"epsilon": 9.0}),
        "own": Part(label="", at={"made": {"a": 1}, "4.0": {"b": 2}}),
    }
    result = list_runs(spec(series=series), EXTENT, tmp_path, print)
    assert result[RunPosition("made", "still", 1.0, None, 0)] == result[RunPosition("made", "still", 4.0, None, 0)]
    assert result[RunPosition("made", "own", 4.0, None, 0)].items() >= {"a": 1, "b": 2}.items()
    assert "b" not in result[RunPosition("made", "own", 1.0, None, 0)]


def test_two_axes_are_crossed_and_a_key_may_depend_on_another(tmp_path: Path) -> None:
    described = spec(x=Axis(key="learner.batch", also=["learner.visits"], label="k"), y=Axis(key="epsilon", label="ε"))
    result = list_runs(described, Extent(seeds=1, minutes=1, x=[1, 5], y=[2.0, 3.0]), tmp_path, print)
    keys = result[RunPosition("made", "good", 5, 3.0, 0)]
    assert (keys["learner.batch"], keys["learner.visits"], keys["epsilon"]) == (5, 5, 3.0)
    assert len(result) == 8


def test_a_panel_without_its_data_is_omitted_and_reported(tmp_path: Path) -> None:
    messages: list[str] = []
    panels = {"made": Part(label="Made up", set={"data.source": "npz:nowhere.npz"})}
    assert list_runs(spec(panels=panels), EXTENT, tmp_path, messages.append) == {}
    assert "nowhere.npz" in messages[0]
    (tmp_path / "here.csv").touch()
    assert resolve_source("csv:here.csv#label=y", tmp_path) == f"csv:{tmp_path}/here.csv#label=y"


def test_finished_runs_are_stored_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, messages = tmp_path / "kept.jsonl", list[tuple[int, int, str]]()

    def told(*words: Any) -> None:
        messages.append(words)

    result = list_runs(spec(), Extent(seeds=1, x=[1.0], minutes=1), tmp_path, print)
    first, second = result
    file.write_text(json.dumps({"run": saved_runs.digest(result[first]), **outcome(0.25)}) + '\n{"run": "cut o')
    ran: list[list[dict[str, Any]]] = []

    class Here(Executor):
        """Pool that executes runs in this process."""

        def submit(self, _: Any, batch: Any) -> Any:  # type: ignore[override]
            future: Future[list[Outcome]] = Future()
            ran.append(batch)
            future.set_result([outcome(0.75)])
            return future

    monkeypatch.setattr(saved_runs, "processes", lambda most: nullcontext(Here()))
    outcomes = collect_outcomes(result, file, told)
    assert [outcomes[run_key]["final"]["accuracy_mean"] for run_key in (first, second)] == [0.25, 0.75]
    assert ran == [[result[second]]]
    assert [words[:2] for words in messages] == [(1, 2), (2, 2)]
    assert collect_outcomes(result, file, told) == outcomes
    assert len(ran) == 1


@pytest.mark.parametrize(
    "keys, length",
    [
        ({"learner": "gradient-walk", "learner.budget": "k-times", "learner.visits": 2}, 120),
        ({"learner": "gradient-walk", "learner.batch": 10}, 6),
        ({"learner": "sequential-sgd"}, 60),
        ({"learner": "sequential-sgd", "learner.batch": 10}, 6),
        ({"learner": "sequential-sgd", "updates": 90}, 90),
        ({"learner": "gradient-walk", "updates": 90}, 60),
    ],
)
def test_a_walk_is_measured_by_updates(keys: dict[str, Any], length: int) -> None:
    result = run_one({**WALK, **keys})
    assert result["curve"][0][0] == 1
    assert result["curve"][-1][0] == length
    assert result["majority"] == 0.5
    assert result["privacy"]["status"] == "refuted"


def test_gradient_walks_that_differ_only_in_epsilon_run_in_a_batch_with_the_results_of_single_runs() -> None:
    walks = [
        {**WALK, "learner": "gradient-walk", "epsilon": epsilon, "learner.batch": batch}
        for batch in (1, 10)
        for epsilon in (1.0, 20.0, float("inf"))
    ]
    others = [{**WALK, "learner": "sequential-sgd", "epsilon": epsilon} for epsilon in (1.0, 20.0)]
    batches = batch_walks({saved_runs.digest(keys): keys for keys in [*walks, *others]})
    assert [list(batch.values()) for batch in batches] == [walks[:3], walks[3:], others[:1], others[1:]]
    assert run_on_arrays(walks[:3]) == [run_one(keys) for keys in walks[:3]]


def test_gossip_is_measured_by_cycles_and_agents_report_their_gradient() -> None:
    result = run_one({**WALK, "learner": "golf", "cycles": 4})
    assert [cycle for cycle, _ in result["curve"]] == [1, 2, 3, 4]
    keys = {"data": "digits", "agents": 3, "cycles": 6, "learner.steps": 2, "learner": "clipd2p", "epsilon": 3.0}
    result = run_one({**keys, "gradient_norm": True, "points": 2, "learner.mixing": "push-sum"})
    assert len(result["curve"]) == 2
    assert result["final"]["gradient_norm"] > 0
    assert 0 < result["curve"][0][1]["gradient_norm"] < 10


@pytest.mark.parametrize("solver", ["gossip", "svm"])
def test_two_solvers_separate_the_plane(solver: str) -> None:
    if solver == "svm":
        pytest.importorskip("sklearn", reason="needs the extra `experiments`")
    result = run_one({**WALK, "learner": "golf", "cycles": 20, "epsilon": float("inf"), "solver": solver})
    assert result["final"]["accuracy_mean"] > 0.98


def data(test: bool) -> DataSet:
    rng = np.random.default_rng(0)
    features = rng.normal(3, [1, 5, 0.1, 2], (50, 4))
    features[:, 3] = 7
    records = Records(features, np.arange(50) % 2)
    return DataSet("made", records, 2, None, records.at(np.arange(10)) if test else None)


def test_standardised_features_have_mean_0_and_deviation_1_on_the_training_set() -> None:
    result = prepare_data(data(test=False), "standardise")
    assert result.test is not None
    assert (len(result.records), len(result.test)) == (40, 10)
    np.testing.assert_allclose(result.records.features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(result.records.features.std(axis=0), [1, 1, 1, 0])


def test_principal_components_have_the_largest_variance() -> None:
    result = prepare_data(data(test=True), "pca(2)")
    assert result.records.features.shape == (50, 2)
    variances = result.records.features.var(axis=0)
    assert variances[0] > variances[1]
    np.testing.assert_allclose(variances.sum(), data(True).records.features.var(axis=0)[:2].sum(), rtol=0.05)
    with pytest.raises(UsageError, match=r"standardise.*pca\(K\)"):
        prepare_data(data(test=True), "whiten")


TURNS = {
    "fidelity": "paper", "learner.model": "logistic", "learner.batch": 20, "agents": 3, "cycles": 150, "epsilon": 2.0,
    "topology": "full", "data.source": "breast-cancer", "data.transform": "unit", "learner": "without-replacement",
    "seed": 3, "privacy.allow_unproved": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "keys",
    [
        {"learner.controller": "always-global"},
        {"learner.controller": "deep-q", "learner.regularisation": 1e-4, "learner.step_size": 0.49995},
        {"learner.controller": "schedule", "learner.release_every": 2},
        {"learner.controller": "always-global", "epsilon": float("inf"), "learner.passes": 2},
    ],
)
def test_turns_without_messages_have_the_result_of_a_fleet(keys: dict[str, Any]) -> None:
    fleet, turns = (run_one({**TURNS, **keys, "engine": engine}) for engine in ("events", "turns"))
    assert fleet["final"]["accuracy_mean"] == turns["final"]["accuracy_mean"]
    assert fleet["final"]["loss_mean"] == pytest.approx(turns["final"]["loss_mean"], rel=1e-12), (
        "a mean of equal values"
    )
    assert (fleet["privacy"], fleet["majority"]) == (turns["privacy"], turns["majority"])


@pytest.mark.parametrize("keys", [{"fidelity": "sound"}, {"learner": "with-replacement"}, {"faults": ["loss=0.1"]}])
def test_turns_are_only_for_chains_as_published_without_faults(keys: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="engine = turns"):
        run_one({**TURNS, **keys, "engine": "turns"})
