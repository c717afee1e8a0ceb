"""The one list of algorithms: its content, other packages' additions, and the absence of names elsewhere."""

import ast
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
import sottovoce_papers
from sottovoce import algorithms
from sottovoce.config import config_from_tables
from sottovoce.errors import ConfigError, PluginError
from sottovoce.learning import papers, registry
from sottovoce.learning.registry import ALGORITHMS, DEFAULT, Algorithm, foreign_key_error, unknown_name_hint
from sottovoce.learning.settings import LearnerSettings
from sottovoce.plugins import attribution
from sottovoce.plugins.discovery import KINDS, _installed

from tests.support.sources import display_path, sources

GROUP = KINDS["learner"]
FOLDERS = (Path(algorithms.__file__).parent, Path(sottovoce_papers.__file__).parent)
OTHERWISE_MEANT = {  # files in which an algorithm's name has another meaning
    "sottovoce/privacy/accounting/sampled.py": {"without-replacement"},  # a way to draw a batch
    "sottovoce/calculator/release_notation.py": {"without-replacement"},
    "sottovoce_lab/simulator/mixing.py": {"push-sum"},  # owner of the weights
    "sottovoce_lab/auditor/targets/__init__.py": {"adad2p"},  # a mechanism
    "sottovoce/learning/registry.py": {DEFAULT},
    "sottovoce/learning/papers.py": {*papers.LEARNERS},  # to say which package has a learner
    # the papers' own variants have one module for each family
    "sottovoce_lab/published/push_sum.py": {"adad2p", "clipd2p", "constd2p", "without-replacement"},
    "sottovoce_lab/published/rounds.py": {"dp-cga", "dp-dpsgd", "dp-net-fleet", "muffliato", "pdsl"},
    "sottovoce_lab/published/shared_model.py": {"with-replacement"},
    # the vector engine has its own arithmetic for two algorithms
    "sottovoce_lab/cli/simulate.py": {"golf", "gradient-walk"},
    "sottovoce_lab/experiments/settings.py": {"golf", "gradient-walk", "push-sum"},  # the last is a mixing rule
    "sottovoce_lab/experiments/report.py": {"gradient-walk"},
    "sottovoce_lab/experiments/statement.py": {"gradient-walk"},
    "sottovoce_lab/experiments/run.py": {"golf", "gradient-walk"},
    "sottovoce_lab/experiments/fleet.py": {"golf", "gradient-walk"},
    "sottovoce_lab/papers/one_run.py": {"gradient-walk"},
}


def find_named_algorithms(file: Path) -> set[str]:
    """Return the algorithms that a file names."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return words & {name for name in ALGORITHMS if name in registry._own_algorithms()}


@pytest.mark.slow
def test_no_algorithm_is_named_outside_its_folder() -> None:
    result = {
        display_path(file): names
        for file in sources()
        if not any(map(file.is_relative_to, FOLDERS)) and (names := find_named_algorithms(file))
    }
    assert result == OTHERWISE_MEANT


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_is_found_by_its_name(name: str) -> None:
    algorithm = ALGORITHMS[name]
    assert algorithm.name == name
    assert len(set(algorithm.own_keys)) == len(algorithm.own_keys)
    assert algorithm.models
    assert all(registry.payload_codec(kind) for kind in algorithm.payloads)


def install_plugins(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    metadata = {"Name": "example"}
    created = SimpleNamespace(metadata=metadata, version="1.0", requires=["sottovoce"], entry_points=points)
    monkeypatch.setattr("importlib.metadata.distributions", lambda: [created])
    monkeypatch.setattr("sottovoce.plugins.discovery._any_plugin_installed", lambda path: True)


@pytest.fixture(autouse=True)
def _clear_caches() -> Iterator[None]:
    _installed.cache_clear()
    registry._PLUGIN_ALGORITHMS.clear()
    yield
    attribution._loaded.clear()
    _installed.cache_clear()
    registry._PLUGIN_ALGORITHMS.clear()


class ExampleSettings(LearnerSettings, frozen=True, tag="example"):
    momentum: float = 0.0


class AnotherSettings(LearnerSettings, frozen=True, tag="another"):
    pass


EXAMPLE = Algorithm(settings=ExampleSettings, releases="", parts=lambda config, public: None, payloads={"e/1": dict})
MISNAMED = Algorithm(settings=AnotherSettings, releases="", parts=lambda config, public: None)


def test_another_package_s_algorithm_is_treated_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, EntryPoint("example", f"{__name__}:EXAMPLE", GROUP))
    assert registry.payload_codec("e/1") is None, "a message does not load an unrequested package"
    assert ALGORITHMS["example"] is EXAMPLE
    assert "example" in ALGORITHMS
    assert list(ALGORITHMS)[-1] == "example"
    assert len(ALGORITHMS) == len(list(ALGORITHMS))
    assert registry.payload_codec("e/1") is not None
    assert foreign_key_error("example", "momentum") is None
    assert "pdsl" in str(foreign_key_error("example", "shapley"))
    assert unknown_name_hint("exampel") == 'did you mean "example"?'


@pytest.mark.parametrize(
    "value, words",
    [
        ("nowhere:ALGORITHM", "ModuleNotFoundError"),
        (f"{__name__}:MISNAMED", "'another'"),
        (f"{__name__}:FOLDERS", "Algorithm"),
    ],
)
def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    install_plugins(monkeypatch, EntryPoint("example", value, GROUP))
    with pytest.raises(PluginError, match=f"learner example of package example 1.0: .*{words}.*re"):
        ALGORITHMS["example"]


def test_two_algorithms_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("example", f"{__name__}:{name}", GROUP) for name in ("EXAMPLE", "MISNAMED")]
    install_plugins(monkeypatch, *points)
    with pytest.raises(PluginError, match="packages"):
        ALGORITHMS["example"]


def test_built_in_names_are_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, EntryPoint(DEFAULT, f"{__name__}:MISNAMED", GROUP))
    assert list(ALGORITHMS).count(DEFAULT) == 1
    with pytest.raises(PluginError, match="Sottovoce itself"):
        ALGORITHMS[DEFAULT]
    assert registry.loaded_algorithms()[DEFAULT].name == DEFAULT


def test_an_unknown_name_is_refused() -> None:
    assert "sgd" not in ALGORITHMS
    with pytest.raises(KeyError):
        ALGORITHMS["sgd"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_states_what_one_dishonest_member_can_do(name: str) -> None:
    assert not ALGORITHMS[name].one_member.startswith("unknown")


@pytest.fixture
def without_papers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test as if `sottovoce-papers` were installed in another version."""
    monkeypatch.setattr("sottovoce.__version__", "0.0.1")
    _forget_papers()
    yield
    monkeypatch.undo()
    _forget_papers()


def _forget_papers() -> None:
    papers.installed_learners.cache_clear()
    registry._own_algorithms.cache_clear()


def test_the_papers_provide_exactly_the_learners_of_the_table() -> None:
    assert set(papers.installed_learners()) == set(papers.LEARNERS)


@pytest.mark.usefixtures("without_papers")
@pytest.mark.parametrize("name", sorted(papers.LEARNERS))
def test_a_learner_of_a_missing_package_says_what_to_install(name: str) -> None:
    assert name not in ALGORITHMS
    with pytest.raises(ConfigError, match=f"learner.*pip install '{papers.DISTRIBUTION}==") as raised:
        config_from_tables({"learner": {"name": name}}, "test")
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("without_papers")
def test_another_package_cannot_take_the_name_of_a_paper_s_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    name = min(papers.LEARNERS)
    install_plugins(monkeypatch, EntryPoint(name, f"{__name__}:MISNAMED", GROUP))
    with pytest.raises(PluginError, match="Sottovoce itself"):
        ALGORITHMS[name]
