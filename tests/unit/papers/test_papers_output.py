"""Conversion of outcomes to pages: the numbers, the printed values, the verdicts, the plots."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import DataError, UsageError
from sottovoce_lab.papers import output, pages, pictures
from sottovoce_lab.papers.cells import build_cells
from sottovoce_lab.papers.pictures import _without_common_part
from sottovoce_lab.papers.result import load_result
from sottovoce_lab.papers.runs import RunPosition
from sottovoce_lab.papers.specification import Axis, Claim, Experiment, Paper, Part, Reading

from tests.unit.papers.made_up import made_up, outcome, spec

AHEAD = Claim(claim="good beats bad", series="good", check="ahead", than=["bad"])
PAPER = Paper(
    title="A paper", reference="Somebody, 2020.", about="About.", readings=[Reading(reading="So")], errors=["Oh."]
)


@pytest.fixture
def results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of one invented experiment in an invented paper."""
    pytest.importorskip("matplotlib", reason="needs the extra `experiments`")
    described = spec(AHEAD, printed={"made": {"good": {"1.0": 0.8}}})
    for module in (output, pages):
        monkeypatch.setattr(module, "read_experiment", lambda name: described)
    monkeypatch.setattr(pages, "read_paper", lambda name: PAPER)
    monkeypatch.setattr(output, "papers", lambda: ["made"])
    monkeypatch.setattr(output, "experiments", lambda name: [f"{name}/table-1", f"{name}/table-2"])
    lead = {"good": 0.7, "bad": 0.5}

    def outcomes(runs: dict[RunPosition, Any], file: Path, told: Any) -> dict[RunPosition, Any]:
        return {run_key: outcome(lead[run_key.series] + run_key.seed / 100) for run_key in runs}

    monkeypatch.setattr(output, "collect_outcomes", outcomes)
    (result,) = output.reproduce(
        "made/table-1", quick=False, folder=tmp_path, out=tmp_path / "out", say=print, progress=lambda *_: None
    )
    assert result.verdict == "holds"
    output.write_pages(tmp_path / "out")
    return tmp_path / "out"


def test_an_experiment_becomes_numbers_a_plot_a_page_and_an_index_entry(results_folder: Path) -> None:
    result = load_result(results_folder / "made/table-1.json")
    assert result is not None
    assert (result.schema, len(result.cells), len(result.cells[0].measures)) == ("sottovoce.result/1", 4, 5)
    assert (results_folder / "made/table-1.svg").read_text().lstrip().startswith("<?xml")
    page = (results_folder / "made.md").read_text()
    assert "| n = 5 seeds | ε = 1 | ε = 4 |" in page
    assert "| Good | 0.720 ± 0.020 ◇ 0.8 | 0.720 ± 0.020 |" in page
    assert "| majority class | 0.300 | 0.300 |" in page
    assert "| Good | 1 | 1e-05 | record, add-remove | proved | so it is |" in page
    assert "| good beats bad | paper | Made up | holds | 5 | +0.200 ± 0.000 against Bad |" in page
    assert "](made/table-1.svg)" in page
    assert "`sottovoce reproduce made/table-1`" in page
    assert "| So | not measured |" in page
    assert "- Oh." in page
    index = (results_folder / "index.md").read_text()
    assert "| [table 1](made.md#table-1-made-up) | good beats bad | Made up | holds | 5 |" in index
    assert "| [A paper](made.md) | 1 | 0 | 0 |" in index


def test_an_invalid_result_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"schema": 1}))
    with pytest.raises(DataError, match="delete"):
        load_result(tmp_path / "x.json")


@pytest.mark.parametrize("picture", ["line", "curves", "heat"])
def test_every_kind_of_plot_is_drawn(picture: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `experiments`")
    described, result = spec(picture=picture, printed={"made": {"good": {"1.0": 0.8}}}), made_up()
    if picture == "heat":
        described, result = heat()
    pictures.draw(described, result, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "Made up" in text
    assert ("printed in the paper" in text) == (picture == "line")
    assert ("majority class" in text) == (picture != "heat")


def heat() -> tuple[Experiment, Any]:
    series = {"good": Part(label="Good", column="bad"), "bad": Part(label="Bad", hidden=True)}
    described = spec(picture="heat", series=series, y=Axis(key="k", label="k"))
    run_keys = [RunPosition("made", name, x, y, 0) for name in series for x in (1, 5) for y in (1.0, float("inf"))]
    return described, build_cells({position: outcome(0.5 + position.x / 100) for position in run_keys}, "accuracy_mean")


def test_a_missing_matplotlib_is_reported_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'sottovoce\[experiments\]'"):
        output.reproduce(
            "hegedus-2017/figure-3",
            quick=True,
            folder=tmp_path,
            out=tmp_path / "out",
            say=print,
            progress=lambda *_: None,
        )
    assert not (tmp_path / "out").exists()


def test_without_data_sets_there_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(output, "pyplot", lambda: None)
    with pytest.raises(DataError, match="--data"):
        output.reproduce(
            "hegedus-2017/figure-3", quick=True, folder=tmp_path, out=tmp_path, say=print, progress=lambda *_: None
        )


def test_tick_labels_omit_common_part_of_faults() -> None:
    assert _without_common_part(["dishonest=0.1@flip", "dishonest=0.1@late"]) == ["flip", "late"]
    for words in (["loss=0.3", "none"], ["loss=0.3@a", "kill=0.3@a"], ["iid", "dirichlet(1)"]):
        assert _without_common_part(words) == words
