"""`sottovoce reproduce`: the list, the refusals, and one small figure."""

import json
from pathlib import Path

import pytest

from tests.support.command import here


def test_the_list_names_every_figure_and_every_study() -> None:
    ended = here("reproduce", "--list")
    assert ended.code == 0
    names = [line.split("  ")[0] for line in ended.out.splitlines()]
    assert names[:5] == [f"golf-figure-{n}" for n in range(1, 6)]
    assert {"jin-study-a", "pdsl-equal-privacy", "adad2p-sigma", "average-profile"} <= set(names)


def test_what_cannot_be_reproduced_is_refused(tmp_path: Path) -> None:
    ended = here("reproduce", "golf-figure-6", "--out", tmp_path / "out")
    assert ended.code == 2
    assert "no such figure" in ended.err
    (tmp_path / "file").touch()
    ended = here("reproduce", "golf-figure-2", "--out", tmp_path / "file")
    assert ended.code == 2
    assert "is a file; name a directory" in ended.err


def test_figure_2_is_regenerated(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `experiments`")
    pytest.importorskip("sklearn", reason="needs the extra `experiments`")
    ended = here("reproduce", "golf-figure-2", "--quick", "--out", tmp_path)
    assert ended.code == 0, ended.err
    figure = json.loads((tmp_path / "golf-figure-2.json").read_text())
    assert figure["schema"] == "sottovoce.figure/1"
    assert {cell["series"] for cell in figure["cells"]} == {"golf", "svm"}
    assert all(cell["accuracy_mean"] == 1 for cell in figure["cells"] if cell["epsilon"] is None)
    assert all(isinstance(found["holds"], bool) for found in figure["findings"])
    assert "standard SVM" in (tmp_path / "golf-figure-2.md").read_text()
    assert (tmp_path / "golf-figure-2.svg").stat().st_size > 1000
