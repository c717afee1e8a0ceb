"""Keys of `[learner]`: each belongs to the named learner, or is an error instead of being ignored silently."""

import re
from pathlib import Path

import pytest
from sottovoce.config import load
from sottovoce.errors import ConfigError
from sottovoce.learner_settings import LearnerSettings
from sottovoce.registry import ALGORITHMS, COMMON_KEYS
from sottovoce_lab.testbed.options import settings

from tests.support.command import here
from tests.support.sources import ROOT

HEAD = '[agent]\nstate = "state"\n[data]\nsource = "npz:x.npz"\nfeatures = 2\nclasses = 2\nexpected_records = 9\n'
VALUES = {
    "budget": '"k-times"', "controller": '"always-global"', "shapley": '"cosine"', "perturbation": '"laplace"',
    "momentum": "0.5", "clip_quantile": "0.5", "clipping": '"decay"', "sampling": '"poisson"',
    "begins_walk": "true", "chebyshev": "true",
}  # fmt: skip


def written(directory: Path, learner: str, *keys: str) -> Path:
    file = directory / "agent.toml"
    lines = [f"{key} = {VALUES.get(key, 1)}" for key in keys]
    file.write_text("\n".join([HEAD, "[learner]", f'name = "{learner}"', *lines, ""]))
    return file


ALL = {key for known in ALGORITHMS.values() for key in known.own_keys}


def test_what_every_learner_has_is_what_the_common_settings_have() -> None:
    assert ("name", *LearnerSettings.__struct_fields__) == COMMON_KEYS
    for name, known in ALGORITHMS.items():
        assert issubclass(known.settings, LearnerSettings)
        assert (known.settings.__struct_config__.tag_field, known.settings().name) == ("name", name)
        assert known.settings.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_keys_of_other_learners_are_errors_that_name_the_line(tmp_path: Path, name: str) -> None:
    others = sorted(ALL - set(ALGORITHMS[name].own_keys))
    with pytest.raises(ConfigError) as refused:
        load(written(tmp_path, name, *others))
    told = str(refused.value).splitlines()
    assert len(told) == len(others)
    for line, (number, key) in zip(told, enumerate(others, start=11), strict=True):
        assert line.startswith(f"{tmp_path / 'agent.toml'}, line {number}: learner.{key}: this key belongs to ")
        assert f", and learner {name} does not have it; " in line


def test_the_own_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"learner\.local_steps: this key belongs to dp-net-fleet, .* keys of this learner are name"
    ):
        load(written(tmp_path, "clipd2p", "local_steps"))
    with pytest.raises(
        ConfigError,
        match=r"learner\.visits: this key belongs to gradient-walk, .* remove it; the keys of this learner are name",
    ):
        load(written(tmp_path, "golf", "visits"))


def test_testbed_and_simulation_refuse_them_too() -> None:
    assert settings(["learner.gossip_steps=9"]) == {"learner.gossip_steps": 9}, "which learner it is, is known later"
    of_golf = ("--set", "learner.gossip_steps=9", "--set", "data.bounds=[0, 16]")
    testbed = here("testbed", "--agents", "2", "--cycles", "1", "--transport", "memory", "--learner", "golf", *of_golf)
    simulated = here("simulate", "golf", "--engine", "events", "--set", "agents=2", "--set", "cycles=1", *of_golf)
    for ended in (testbed, simulated):
        assert ended.code == 3, ended
        assert "learner.gossip_steps: this key belongs to muffliato, and learner golf does not have it" in ended.err


def test_a_repeated_assignment_is_refused() -> None:
    twice = ("--set", "learner.clip=1", "--set", "learner.clip=2")
    for command in (("testbed", "--transport", "memory"), ("simulate", "golf")):
        ended = here(*command, *twice)
        assert (ended.code, "learner.clip is already set to 1; remove one of the assignments" in ended.err) == (2, True)


def test_the_page_has_every_learner_with_its_keys() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*) \| (`[a-z_]+`(?:, `[a-z_]+`)*) \|$", page, re.MULTILINE)
    shown = {name: _words(keys) for names, keys in rows for name in _words(names)}
    assert {name: sorted(keys) for name, keys in shown.items()} == {
        name: sorted(known.keys) for name, known in ALGORITHMS.items()
    }
    assert f"Every learner has {', '.join(f'`{key}`' for key in COMMON_KEYS)}, and these." in page


def _words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize(
    "keys, says",
    [
        (
            ("dishonest = 0.1", 'mixing = "pairwise"'),
            'learner.dishonest: pairwise has no such key; set mixing = "contributions"',
        ),
        (
            ("contributors = 9", 'mixing = "pairwise"'),
            'learner.contributors: pairwise has no such key; set mixing = "co',
        ),
        (('mixing = "contributions"', 'clipping = "quantile"'), "learner.clipping: a few dishonest devices"),
        (('mixing = "contributions"', 'fidelity = "paper"'), 'learner.mixing: fidelity = "paper" mixes by push-sum'),
    ],
)
def test_what_one_way_of_mixing_has_not_is_an_error(tmp_path: Path, keys: tuple[str, ...], says: str) -> None:
    file = written(tmp_path, "clipd2p")
    file.write_text(file.read_text() + "\n".join(keys) + "\n")
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert says in str(refused.value)
