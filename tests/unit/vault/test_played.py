"""Private halves of papers: which files the vault takes for those that the neighbour suite has played."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sottovoce.privacy.terms import played
from sottovoce.privacy.terms.played import LIST, digests, is_played

from tests.neighbours.played import played as played_halves

_MODULE = "some_paper.private.terms"


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an imported private half that the list has."""
    folder = tmp_path / "some_paper" / "private"
    folder.mkdir(parents=True)
    for name in ("__init__", "terms", "program"):
        (folder / f"{name}.py").write_text(f"# {name}\n", encoding="utf-8")
    (folder / "__pycache__").mkdir()
    listed = tmp_path / "played.sha256"
    lines = [f"{digest}  {name}\n" for name, digest in digests(folder, "some_paper/private").items()]
    listed.write_text("".join(lines), encoding="utf-8")
    monkeypatch.setattr(played, "LIST", listed)
    module = ModuleType(_MODULE)
    module.__file__ = str(folder / "terms.py")
    monkeypatch.setitem(sys.modules, _MODULE, module)
    return folder


def test_a_listed_folder_is_played(half: Path) -> None:
    assert is_played(_MODULE)


def _change_terms(folder: Path) -> None:
    (folder / "terms.py").write_text("# terms \n", encoding="utf-8")


def _change_program(folder: Path) -> None:
    (folder / "program.py").write_text("# programme\n", encoding="utf-8")


def _add_module(folder: Path) -> None:
    (folder / "numpy.py").write_text("", encoding="utf-8")


def _remove_module(folder: Path) -> None:
    (folder / "program.py").unlink()


@pytest.mark.parametrize("tamper", [_change_terms, _change_program, _add_module, _remove_module])
def test_a_changed_folder_is_not_played(half: Path, tamper: Callable[[Path], object]) -> None:
    tamper(half)
    assert not is_played(_MODULE)


def test_an_unlisted_or_absent_module_is_not_played(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_played("some_paper.absent")
    monkeypatch.setitem(sys.modules, "another.private.terms", sys.modules[_MODULE])
    assert not is_played("another.private.terms")


def test_the_list_has_exactly_the_private_halves_of_papers() -> None:
    assert LIST.read_text(encoding="utf-8") == played_halves(), "play them: make played"
