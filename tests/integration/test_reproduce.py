"""`sottovoce reproduce`: the list, the refusals, and one small figure."""

import json
from pathlib import Path

import pytest

from tests.support.command import run_here


def test_the_list_shows_every_figure_with_its_minutes() -> None:
    completed = run_here("reproduce", "--list")
    assert completed.code == 0
    assert "jin-2023/table-1  Table I: Covertype" in completed.out
    assert "min with --quick" in completed.out
    completed = run_here("reproduce", "--list", "adad2p-2024")
    assert {line.split("/")[0] for line in completed.out.splitlines()} == {"adad2p-2024"}


def test_an_unknown_figure_is_refused(tmp_path: Path) -> None:
    completed = run_here("reproduce", "hegedus-2017/figure-6", "--out", tmp_path / "out")
    assert completed.code == 2
    assert "There is no figure, table or paper named hegedus-2017/figure-6" in completed.err
    (tmp_path / "file").touch()
    completed = run_here("reproduce", "hegedus-2017/figure-2", "--out", tmp_path / "file")
    assert completed.code == 2
    assert "is a file; choose a directory" in completed.err


@pytest.mark.process
def test_figure_2_is_reproduced(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `experiments`")
    pytest.importorskip("sklearn", reason="needs the extra `experiments`")
    completed = run_here("reproduce", "hegedus-2017/figure-2", "--quick", "--out", tmp_path)
    assert completed.code == 0, completed.err
    assert "10 of 16" in completed.err
    result = json.loads((tmp_path / "hegedus-2017/figure-2.json").read_text())
    assert {cell["series"] for cell in result["cells"]} == {"golf", "svm"}
    assert all(cell["mean"] == 1 for cell in result["cells"] if cell["x"] == "inf")
    assert {found["verdict"] for found in result["findings"]} == {"open"}
    assert "standard SVM" in (tmp_path / "hegedus-2017.md").read_text()
    assert (tmp_path / "hegedus-2017/figure-2.svg").stat().st_size > 1000
    repeated = run_here("reproduce", "hegedus-2017/figure-2", "--quick", "--out", tmp_path)
    assert repeated.code == 0
    assert "1 of 16" not in repeated.err
