"""Single list of algorithms: its contents, additions of other packages, and that no other code has their names."""

import ast
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
from sottovoce import algorithms, registry
from sottovoce.errors import PluginError
from sottovoce.learner_settings import LearnerSettings
from sottovoce.plugins import guard
from sottovoce.plugins.discovery import KINDS, _installed
from sottovoce.registry import ALGORITHMS, DEFAULT, Algorithm, foreign_key_error, unknown_name_hint

from tests.support.sources import shown, sources

GROUP = KINDS["learner"]
FOLDERS = Path(algorithms.__file__).parent
OTHERWISE_MEANT = {  # files in which a word is an algorithm's name, and means something else
    "sottovoce/accounting/sampled.py": {"without-replacement"},  # how a batch is drawn
    "sottovoce/accounting/release_notation.py": {"without-replacement"},
    "sottovoce_lab/simulator/mixing.py": {"push-sum"},  # whose weights
    "sottovoce_lab/auditor/targets/__init__.py": {"adad2p"},  # a mechanism
    "sottovoce/registry.py": {DEFAULT},
    # The vector engine has arithmetic of its own for two of them.
    "sottovoce_lab/cli/simulate.py": {"golf", "gradient-walk"},
    "sottovoce_lab/experiments/settings.py": {"golf", "gradient-walk", "push-sum"},  # the last as a way of mixing
    "sottovoce_lab/experiments/report.py": {"gradient-walk"},
    "sottovoce_lab/experiments/statement.py": {"gradient-walk"},
    "sottovoce_lab/experiments/run.py": {"golf", "gradient-walk"},
    "sottovoce_lab/experiments/fleet.py": {"golf", "gradient-walk"},
    "sottovoce_lab/papers/one_run.py": {"gradient-walk"},
}


def named(file: Path) -> set[str]:
    """The algorithms that a file names."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return words & {name for name in ALGORITHMS if name in registry._built_in_algorithms()}


def test_no_algorithm_is_named_outside_its_folder() -> None:
    found = {shown(file): names for file in sources() if not file.is_relative_to(FOLDERS) and (names := named(file))}
    assert found == OTHERWISE_MEANT


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_is_found_by_its_own_name(name: str) -> None:
    algorithm = ALGORITHMS[name]
    assert algorithm.name == name
    assert len(set(algorithm.own_keys)) == len(algorithm.own_keys)
    assert algorithm.models
    assert all(registry.payload_codec(kind) for kind in algorithm.payloads)


def brought(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    metadata = {"Name": "example"}
    made = SimpleNamespace(metadata=metadata, version="1.0", requires=["sottovoce"], entry_points=points)
    monkeypatch.setattr("importlib.metadata.distributions", lambda: [made])
    monkeypatch.setattr("sottovoce.plugins.discovery._any_plugin_installed", lambda path: True)


@pytest.fixture(autouse=True)
def _as_at_a_start() -> Iterator[None]:
    _installed.cache_clear()
    registry._PLUGIN_ALGORITHMS.clear()
    yield
    guard._CALLED.clear()
    _installed.cache_clear()
    registry._PLUGIN_ALGORITHMS.clear()


class ExampleSettings(LearnerSettings, frozen=True, tag="example"):
    momentum: float = 0.0


class AnotherSettings(LearnerSettings, frozen=True, tag="another"):
    pass


EXAMPLE = Algorithm(settings=ExampleSettings, releases="", parts=lambda config, public: None, payloads={"e/1": dict})
MISNAMED = Algorithm(settings=AnotherSettings, releases="", parts=lambda config, public: None)


def test_one_that_a_package_brings_is_one_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    brought(monkeypatch, EntryPoint("example", f"{__name__}:EXAMPLE", GROUP))
    assert registry.payload_codec("e/1") is None, "no message loads what nobody asked for"
    assert ALGORITHMS["example"] is EXAMPLE
    assert "example" in ALGORITHMS
    assert list(ALGORITHMS)[-1] == "example"
    assert len(ALGORITHMS) == len(list(ALGORITHMS))
    assert registry.payload_codec("e/1") is not None
    assert foreign_key_error("example", "momentum") is None
    assert "belongs to pdsl" in str(foreign_key_error("example", "shapley"))
    assert unknown_name_hint("exampel") == 'did you mean "example"?'


@pytest.mark.parametrize(
    "value, words",
    [
        ("nowhere:ALGORITHM", "importing it failed: ModuleNotFoundError"),
        (f"{__name__}:MISNAMED", "tagged 'another'"),
        (f"{__name__}:FOLDERS", "not Algorithm"),
    ],
)
def test_a_broken_one_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    brought(monkeypatch, EntryPoint("example", value, GROUP))
    with pytest.raises(PluginError, match=f"learner example of package example 1.0: .*{words}.*re"):
        ALGORITHMS["example"]


def test_two_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("example", f"{__name__}:{name}", GROUP) for name in ("EXAMPLE", "MISNAMED")]
    brought(monkeypatch, *points)
    with pytest.raises(PluginError, match="several packages provide this name"):
        ALGORITHMS["example"]


def test_the_names_of_this_package_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    brought(monkeypatch, EntryPoint(DEFAULT, f"{__name__}:MISNAMED", GROUP))
    assert list(ALGORITHMS).count(DEFAULT) == 1
    with pytest.raises(PluginError, match="Sottovoce itself uses this name; rename the entry point"):
        ALGORITHMS[DEFAULT]
    assert registry.loaded_algorithms()[DEFAULT].name == DEFAULT


def test_there_is_no_other() -> None:
    assert "sgd" not in ALGORITHMS
    with pytest.raises(KeyError):
        ALGORITHMS["sgd"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_says_what_one_dishonest_member_can_do(name: str) -> None:
    assert not ALGORITHMS[name].one_member.startswith("unknown")
