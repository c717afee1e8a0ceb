"""Keys in `[learner]`: each belongs to the named learner, or is an error instead of being ignored."""

from pathlib import Path

import pytest
from sottovoce.config import load
from sottovoce.errors import ConfigError
from sottovoce.learning.registry import ALGORITHMS, COMMON_KEYS
from sottovoce.learning.settings import LearnerSettings
from sottovoce_lab.testbed.options import parse_settings

from tests.support.command import run_here

HEAD = '[agent]\nstate = "state"\n[data]\nsource = "npz:x.npz"\nfeatures = 2\nclasses = 2\nexpected_records = 9\n'
VALUES = {
    "budget": '"k-times"', "controller": '"always-global"', "shapley": '"cosine"', "perturbation": '"laplace"',
    "momentum": "0.5", "clip_quantile": "0.5", "clipping": '"decay"', "sampling": '"poisson"',
    "begins_walk": "true", "chebyshev": "true", "start": "[0.5]", "centre": '"private"',
}  # fmt: skip


def write_config(directory: Path, learner: str, *keys: str) -> Path:
    file = directory / "agent.toml"
    lines = [f"{key} = {VALUES.get(key, 1)}" for key in keys]
    file.write_text("\n".join([HEAD, "[learner]", f'name = "{learner}"', *lines, ""]))
    return file


ALL = {key for known in ALGORITHMS.values() for key in known.own_keys}


def test_the_common_settings_are_every_learner_s_keys() -> None:
    assert ("name", *LearnerSettings.__struct_fields__) == COMMON_KEYS
    for name, known in ALGORITHMS.items():
        assert issubclass(known.settings, LearnerSettings)
        assert (known.settings.__struct_config__.tag_field, known.settings().name) == ("name", name)
        assert known.settings.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("name", ALGORITHMS)
def test_other_learners_keys_are_errors_with_the_line(tmp_path: Path, name: str) -> None:
    others = sorted(ALL - set(ALGORITHMS[name].own_keys))
    with pytest.raises(ConfigError) as exc_info:
        load(write_config(tmp_path, name, *others))
    message = str(exc_info.value).splitlines()
    assert len(message) == len(others)
    for line, (number, key) in zip(message, enumerate(others, start=11), strict=True):
        assert line.startswith(f"{tmp_path / 'agent.toml'}, line {number}: learner.{key}: this key belongs to ")
        assert f", and learner {name} does not have it; " in line


def test_a_learner_s_own_keys_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"learner\.local_steps.*dp-net-fleet"):
        load(write_config(tmp_path, "clipd2p", "local_steps"))
    with pytest.raises(
        ConfigError,
        match=r"learner\.visits.*gradient-walk",
    ):
        load(write_config(tmp_path, "golf", "visits"))


def test_testbed_and_simulation_also_refuse_them() -> None:
    assert parse_settings(["learner.gossip_steps=9"]) == {"learner.gossip_steps": 9}, "the learner is known later"
    of_golf = ("--set", "learner.gossip_steps=9", "--set", "data.bounds=[0, 16]")
    testbed = run_here(
        "testbed", "--agents", "2", "--cycles", "1", "--transport", "memory", "--learner", "golf", *of_golf
    )
    simulated = run_here("simulate", "golf", "--engine", "events", "--set", "agents=2", "--set", "cycles=1", *of_golf)
    for completed in (testbed, simulated):
        assert completed.code == 3, completed
        assert "learner.gossip_steps" in completed.err


def test_a_repeated_assignment_is_refused() -> None:
    twice = ("--set", "learner.clip=1", "--set", "learner.clip=2")
    for command in (("testbed", "--transport", "memory"), ("simulate", "golf")):
        completed = run_here(*command, *twice)
        assert (completed.code, "learner.clip" in completed.err) == (
            2,
            True,
        )


@pytest.mark.parametrize(
    "keys, says",
    [
        (
            ("dishonest = 0.1", 'mixing = "pairwise"'),
            "learner.dishonest: pairwise",
        ),
        (
            ("contributors = 9", 'mixing = "pairwise"'),
            "learner.contributors: pairwise",
        ),
        (('mixing = "contributions"', 'clipping = "quantile"'), "learner.clipping: "),
        (('mixing = "contributions"', 'fidelity = "paper"'), 'learner.mixing: fidelity = "paper"'),
    ],
)
def test_a_key_of_another_mixing_rule_is_an_error(tmp_path: Path, keys: tuple[str, ...], says: str) -> None:
    file = write_config(tmp_path, "clipd2p")
    file.write_text(file.read_text() + "\n".join(keys) + "\n")
    with pytest.raises(ConfigError) as exc_info:
        load(file)
    assert says in str(exc_info.value)
