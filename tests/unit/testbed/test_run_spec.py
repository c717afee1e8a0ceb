"""Description of a run: the same keys for all engines, lists as sweeps, and invalid values."""

import math
from typing import Any

import pytest
from sottovoce.errors import ConfigError, UsageError
from sottovoce_lab.testbed.run_spec import ENGINES, build_run_spec, combinations, override_values


def test_omitted_keys_have_the_learner_s_defaults() -> None:
    spec = build_run_spec({}, "x")
    assert (spec.engine, spec.learner, spec.epsilon) == ("events", "clipd2p", None)
    requested = spec.options()
    assert (requested.epsilon, requested.topology, requested.transport, requested.settings) == (
        2.0,
        "exponential",
        "memory",
        {},
    )
    noiseless = build_run_spec({"learner": "push-sum"}, "x").options()
    assert noiseless.epsilon is None
    assert build_run_spec({"learner": "pdsl", "epsilon": math.inf}, "x").options().topology == "full"


def test_short_and_long_names_are_the_same_key() -> None:
    short = {
        "learner": "golf",
        "model": "pegasos",
        "epsilon": 3,
        "delta": 1e-6,
        "data": "synthetic",
        "partition": "iid",
    }
    long = {
        "learner.name": "golf", "learner.model": "pegasos", "privacy.epsilon": 3, "privacy.delta": 1e-6,
        "data.source": "synthetic", "data.partition": "iid",
    }  # fmt: skip
    assert build_run_spec(short, "x") == build_run_spec(long, "x")
    assert override_values(short, {"learner.name": "pdsl"})["learner.name"] == "pdsl"
    assert "learner" not in override_values(short, {"learner.name": "pdsl"})


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_the_same_fleet(engine: str) -> None:
    requested = build_run_spec({"engine": engine, "agents": 5, "seed": 3, "topology": "newscast"}, "x")
    if engine in ("vector", "events", "memory"):
        with pytest.raises(UsageError, match="newscast"):
            requested.options()
        return
    assert (requested.options().agents, requested.options().seed, requested.options().transport) == (5, 3, engine)


def test_the_vector_engine_s_faults_work_on_all_engines() -> None:
    table = {"faults.drop": 0.2, "faults.delay": [1, 3], "faults.churn": "lognormal(2,1)", "period": 0.5}
    faults = build_run_spec(table, "x").options().faults
    assert (faults.loss, faults.delay, faults.delay_spread) == (0.2, 1.0, 0.5)
    assert (
        build_run_spec(table, "x").faults
        == build_run_spec({"faults": list(build_run_spec(table, "x").faults)}, "x").faults
    )
    assert build_run_spec({"faults": "loss=0.1"}, "x").faults == ("loss=0.1",)
    assert build_run_spec({"faults.delay": 2}, "x").options().faults.delay == 2.0


def test_synthetic_data_have_their_size() -> None:
    assert build_run_spec({"data": "synthetic", "data.features": 5}, "x").data == "synthetic#features=5"


@pytest.mark.parametrize(
    "values, error, says",
    [
        ({"engine": "cloud"}, ConfigError, "'cloud'"),
        ({"agents": "many"}, ConfigError, "x: agents: Expected `int`, got `str`"),
        ({"agents": 0}, ConfigError, "x: agents: Expected `int` >= 1"),
        ({"epsilon": 0}, ConfigError, "x: epsilon: Expected `float` > 0.0"),
        ({"learner.clop": 1}, UsageError, "`learner.clip`"),
        ({"settings": 1}, UsageError, "unknown key"),
        ({"data.features": 5}, ConfigError, "data = synthetic"),
        ({"faults.online": 0.5}, ConfigError, "faults.online"),
        ({"faults": [1]}, ConfigError, "x: faults[0]: Expected `str`"),
    ],
)
def test_invalid_values_are_named(values: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as refused:
        build_run_spec(values, "x")
    assert says in str(refused.value)


def test_lists_are_sweeps_over_all_combinations() -> None:
    values = {"agents": 4, "epsilon": [1, 2], "seed": [0, 1, 2], "faults": ["loss=0.1"], "data.bounds": [0, 1]}
    runs = combinations(values)
    assert len(runs) == 6
    assert [(run["epsilon"], run["seed"]) for run in runs] == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert all(run["faults"] == ["loss=0.1"] and run["data.bounds"] == [0, 1] for run in runs)
    assert combinations({"agents": 4}) == [{"agents": 4}]
    with pytest.raises(UsageError, match=r"seed: .*empty"):
        combinations({"seed": []})


def test_numbers_with_commas_form_a_list() -> None:
    typed = {"epsilon": "1,2.5", "topology": "ring", "learner.model": "a,b", "faults": "loss=0.1,reorder=0.1"}
    assert override_values({}, typed) == {**typed, "epsilon": [1, 2.5]}
