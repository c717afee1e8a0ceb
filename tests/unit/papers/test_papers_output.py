"""Conversion of outcomes to pages: the numbers, the printed values, the verdicts, the plots."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sottovoce.errors import DataError, UsageError
from sottovoce_lab.papers import output, pages, pictures
from sottovoce_lab.papers.cells import build_cells
from sottovoce_lab.papers.pictures import _without_common_part
from sottovoce_lab.papers.result import load_result
from sottovoce_lab.papers.runs import RunPosition
from sottovoce_lab.papers.specification import Axis, Cause, Claim, Experiment, Omission, Paper, Part, Reading

from tests.unit.papers.made_up import EXTENT, made_up, outcome, spec

AHEAD = Claim(claim="good beats bad", series="good", check="ahead", than=["bad"])
PAPER = Paper(
    title="A paper",
    reference="Somebody, 2020.",
    about="About.",
    readings=[Reading(reading="So", effect="Much.")],
    errors=["Oh."],
    omitted=[Omission(figures=["table-9"], claims=["too much"], reason="not drawn.")],
    headlines=["good beats bad"],
)


@pytest.fixture
def results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of one invented experiment in an invented paper."""
    pytest.importorskip("matplotlib", reason="needs the extra `experiments`")
    extent = replace(EXTENT, scaled="half the seeds")
    described = spec(
        AHEAD,
        printed={"made": {"good": {"1.0": 0.8}}},
        band=0.02,
        causes=[Cause(cause="Unlike data.", series=["good"])],
        full=extent,
    )
    monkeypatch.setattr(output, "read_experiment", lambda name: described)
    monkeypatch.setattr(pages, "read_paper", lambda name: PAPER)
    monkeypatch.setattr(output, "papers", lambda: ["made"])
    monkeypatch.setattr(output, "experiments", lambda name: [f"{name}/table-1"])
    lead = {"good": 0.7, "bad": 0.5}

    def outcomes(runs: dict[RunPosition, Any], file: Path, told: Any) -> dict[RunPosition, Any]:
        return {run_key: outcome(lead[run_key.series] + run_key.seed / 100) for run_key in runs}

    monkeypatch.setattr(output, "collect_outcomes", outcomes)
    results = output.reproduce(
        "made/table-1", quick=False, folder=tmp_path, out=tmp_path / "out", say=print, progress=lambda *_: None
    )
    assert [result.verdict for result in results] == ["holds", "not reproduced"]
    output.write_pages(tmp_path / "out")
    return tmp_path / "out"


def test_an_experiment_becomes_numbers_a_plot_a_page_and_an_index_entry(results_folder: Path) -> None:
    result = load_result(results_folder / "made/table-1.json")
    assert result is not None
    assert (len(result.cells), len(result.cells[0].measures)) == (4, 5)
    assert (results_folder / "made/table-1.svg").read_text().lstrip().startswith("<?xml")
    page = (results_folder / "made.md").read_text()
    assert "| good beats bad (table 1) | +0.200 (+0.200 to +0.200) against Bad | holds | 5 |" in page
    assert "| Good, printed (table 1) | printed 0.8, ours 0.720 (0.700 to 0.740) | not reproduced | 5 |" in page
    assert "- Good: Unlike data." in page
    assert "](made/table-1.svg)" in page
    assert "- table 1: half the seeds" in page
    assert "`sottovoce reproduce made`" in page
    assert "- So Much." in page
    assert "- Oh." in page
    assert "Table 9: not drawn." in page
    assert "| too much (table 9) | not drawn | open | 0 |" in page
    index = (results_folder / "index.md").read_text()
    assert "| [A paper](made.md) | 1 | 1 | 1 |" in index
    assert "| [good beats bad](made.md) | +0.200 (+0.200 to +0.200) against Bad | holds | 5 |" in index


def test_the_long_tables_are_written_beside_the_page(results_folder: Path) -> None:
    claims = list(csv.DictReader((results_folder / "made/claims.csv").read_text().splitlines()))
    assert [(row["figure"], row["verdict"], row["cause"]) for row in claims] == [
        ("table 1", "holds", ""), ("table 1", "not reproduced", "Unlike data."), ("table 9", "open", ""),
    ]  # fmt: skip
    numbers = list(csv.DictReader((results_folder / "made/numbers.csv").read_text().splitlines()))
    assert [(row["series"], row["x"], row["mean"], row["printed"]) for row in numbers] == [
        ("Good", "1.0", "0.72", "0.8"), ("Good", "4.0", "0.72", ""), ("Bad", "1.0", "0.52", ""),
        ("Bad", "4.0", "0.52", ""),
    ]  # fmt: skip
    assert (numbers[0]["low_95"], numbers[0]["high_95"], numbers[0]["epsilon"]) == ("0.70037", "0.73963", "1.0")


def test_pages_and_verdicts_follow_from_the_stored_numbers(
    results_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = results_folder / "made/table-1.json"
    document = json.loads(path.read_text())
    assert document["findings"][0]["verdict"] == "holds"
    for cell in document["cells"]:
        cell["measures"] = cell["measures"][:2]
    path.write_text(json.dumps(document))
    (results_folder / "made/table-1.svg").unlink()
    monkeypatch.setattr(output, "collect_outcomes", None)
    output.write_pages(results_folder, redraw=True)
    assert [finding["verdict"] for finding in json.loads(path.read_text())["findings"]] == ["open", "open"]
    assert "| good beats bad (table 1) | +0.200 against Bad | open | 2 |" in (results_folder / "made.md").read_text()
    assert (results_folder / "made/table-1.svg").exists()


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path}.*no results"):
        output.write_pages(tmp_path)


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
