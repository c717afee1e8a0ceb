"""Settings from files and assignments: the accepted forms, and the refusals."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import ConfigError, SottovoceError, UsageError
from sottovoce_lab.experiments import KEYS, build_settings, events, from_assignments, from_file, load_experiment, names
from sottovoce_lab.simulator.vector import LogNormal, Network


def parse_and_build(*assignments: str) -> Any:
    return build_settings(from_assignments(assignments), "--set")


def test_assignments_are_toml_or_words() -> None:
    chosen = parse_and_build(
        "agents=7", "epsilon=inf", "data=synthetic", "data.features=3", "learner.model=pegasos", "faults.delay=[1, 10]",
        "faults.churn=lognormal(0, 1)", "faults.online=0.8", "data.bounds=[-1, 2.5]", 'topology="ring"',
    )  # fmt: skip
    assert (chosen.agents, chosen.data.source, chosen.data.features) == (7, "synthetic", 3)
    assert chosen.is_noiseless
    assert chosen.faults.network == Network(0.0, (1, 10))
    assert chosen.faults.sessions == LogNormal(0.8, 0.0, 1.0)
    assert chosen.data.bounds == (-1, 2.5)
    assert chosen.topology == "ring"


def test_defaults_are_sound_private_and_fault_free() -> None:
    chosen = parse_and_build()
    assert (chosen.fidelity, chosen.is_noiseless) == ("sound", False)
    assert (chosen.faults.network, chosen.faults.sessions) == (Network(), LogNormal())
    assert not chosen.privacy.allow_unproved


@pytest.mark.parametrize(
    "key, meant",
    [("epsilo", "epsilon"), ("data.class", "data.classes"), ("learner.modl", "learner.model"), ("drop", "faults.drop"),
     ("faults.dealy", "faults.delay"), ("feature", "data.features"), ("dat", "data")],
)  # fmt: skip
def test_an_unknown_key_is_refused_with_the_nearest(key: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"--set {key}: .*`{meant}`"):
        from_assignments([f"{key}=1"])
    file = tmp_path / "own.toml"
    file.write_text(f"{key} = 1\n")
    with pytest.raises(ConfigError, match=f"{key}: "):
        from_file(file)


def test_an_unrecognisable_key_is_refused_with_the_full_list() -> None:
    with pytest.raises(UsageError, match="agents, cycles"):
        from_assignments(["xyzzy=1"])
    with pytest.raises(UsageError, match="--set KEY=VALUE"):
        from_assignments(["agents"])


@pytest.mark.parametrize(
    "assignment, problem",
    [
        ("epsilon=-3", "epsilon: "),
        ("epsilon=501", r"epsilon: .*\b500\b"),
        ("epsilon=nan", "epsilon: "),
        ("agents=0", "agents: "),
        ("agents=1.5", "agents: "),
        ("seed=x", "seed: "),
        ("topology=star", r"topology: .*uniform"),
        ("partition=iid", r"partition: .*one record"),
        ("faults.drop=1", r"faults\.drop: "),
        ("faults.delay=[5, 2]", r"faults\.delay: "),
        ("faults.churn=weibull(1)", r"faults\.churn: .*lognormal"),
        ("faults.churn=lognormal(0,-1)", r"faults\.churn: "),
        ("learner.model=svm", r"learner\.model: "),
        ("data.bounds=wide", r"data\.bounds: "),
        ("data.classes=1", r"data\.classes: "),
    ],
)
def test_an_impossible_value_is_refused_by_its_key(assignment: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^--set: {problem}"):
        parse_and_build(assignment)


def test_a_budget_can_be_halved_a_limited_number_of_times() -> None:
    with pytest.raises(ConfigError, match=r"learner\.visits.*500 visits"):
        parse_and_build("learner=gradient-walk", "learner.budget=halving", "learner.visits=501")


def test_a_walk_does_not_support_ridge() -> None:
    with pytest.raises(ConfigError, match=r"pegasos.*logistic"):
        parse_and_build("learner=gradient-walk", "learner.model=ridge")


def test_a_file_may_use_tables_and_relative_paths(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'agents = 5\n[data]\nsource = "npz:records.npz#bounds=0:1"\n[learner]\nname = "golf"\nmodel = "logistic"\n'
    )
    values = from_file(file)
    assert values == {
        "agents": 5,
        "data.source": f"npz:{tmp_path}/records.npz#bounds=0:1",
        "learner.name": "golf",
        "learner.model": "logistic",
    }
    file.write_text('data = "synthetic"\nlearner = "gradient-walk"\n')
    assert build_settings(from_file(file), str(file)).learner.name == "gradient-walk"


def test_an_invalid_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("agents = = 3")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name, problem in (("none", r"none\.toml"), ("broken", "TOML"), ("binary", "UTF-8")):
        with pytest.raises(ConfigError, match=problem):
            load_experiment(str(tmp_path / f"{name}.toml"))
    with pytest.raises(UsageError, match=r"golf\?"):
        load_experiment("gulf")


def test_every_built_in_experiment_is_valid() -> None:
    assert {"golf", "gradient-walk", "sequential-sgd"} <= set(names())
    assert {"without-replacement", "pdsl", "push-sum", "average"} <= set(names())
    for name in names():
        if name in ("golf", "gradient-walk", "sequential-sgd"):
            build_settings(load_experiment(name), name)
        else:
            assert events.build_options(load_experiment(name, None), name).learner == name


def test_keys_are_dotted_and_complete() -> None:
    assert {"agents", "cycles", "seed", "epsilon", "topology", "partition", "data.source", "data.features"} <= set(KEYS)
    assert issubclass(ConfigError, SottovoceError)
