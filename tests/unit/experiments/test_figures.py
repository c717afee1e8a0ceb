"""The figures' plumbing: specifications, grids, findings and pages, on cells made up for the purpose."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.errors import DataError, UsageError
from sottovoce_lab.experiments.figures import figure_named, figure_names, plots, regenerate
from sottovoce_lab.experiments.figures.findings import checked, surface
from sottovoce_lab.experiments.figures.specification import Claim, Extent, FigureSpec, Series
from sottovoce_lab.experiments.figures.sweep import Cell, Cells, Place, anchored, sweep
from sottovoce_lab.experiments.figures.tables import markdown
from sottovoce_lab.experiments.settings import KEYS, settings

INF = float("inf")
WALK = {"learner": "gradient-walk", "learner.budget": "k-times"}
EXTENT = Extent(runs=2, epsilon=[INF, 10.0, 1.0], k=[1, 10], set={"cycles": 3, "agents": 30})


def spec(*findings: Claim, **changes: Any) -> FigureSpec:
    parts: dict[str, Any] = {
        "title": "A figure",
        "shows": "What it shows.",
        "kind": "grid",
        "data": {"made": {"data.source": "two-gaussians"}},
        "series": {
            "data": Series(label="data"),
            "walk": Series(label="walk", k=["learner.visits"], set=WALK),
        },
        "findings": list(findings),
        "full": EXTENT,
        "quick": EXTENT,
    }
    return FigureSpec(**parts | changes)


def made_up() -> Cells:
    cells: Cells = {}
    for i, epsilon in enumerate([1.0, 10.0, INF]):
        cells[Place("made", "data", epsilon, 0)] = Cell([0.5 + 0.2 * i, 0.52 + 0.2 * i])
        for j, k in enumerate([1, 10]):
            cells[Place("made", "walk", epsilon, k)] = Cell([0.6 + 0.1 * i - 0.2 * j])
    return cells


def test_a_surface_repeats_what_does_not_depend_on_k() -> None:
    np.testing.assert_allclose(surface(made_up(), "made", "data", [1.0, INF], [1, 10]), [[0.51, 0.51], [0.91, 0.91]])
    np.testing.assert_allclose(surface(made_up(), "made", "walk", [1.0, INF], [1, 10]), [[0.6, 0.4], [0.8, 0.6]])


@pytest.mark.parametrize(
    "claim, holds, evidence",
    [
        (
            Claim(claim="", series="data", check="not-below", other="walk"),
            False,
            "where least, at ε = 1, k = 1",
        ),
        (Claim(claim="", series="data", check="not-below", other="walk", margin=0.1), True, "-9.0 points"),
        (Claim(claim="", series="data", check="not-below", other="walk", k=[10]), True, "+11.0 points"),
        (Claim(claim="", series="data", check="not-below", other="noiseless", margin=0.3), False, "-40.0 points"),
        (Claim(claim="", series="data", check="above", other="walk"), True, "+11.0 points on average"),
        (Claim(claim="", series="walk", check="above", other="data"), False, "-11.0 points on average"),
        (Claim(claim="", series="data", check="rises-with-epsilon"), True, "0.510 at ε = 1, 0.910 at ε = inf"),
        (Claim(claim="", series="walk", check="falls-with-k"), True, "0.700 at k = 1, 0.500 at k = 10"),
        (Claim(claim="", series="walk", check="rises-with-k"), False, "0.700 at k = 1"),
        (Claim(claim="", series="data", check="falls-with-k"), False, "0.710"),
    ],
)
def test_findings_are_computed(claim: Claim, holds: bool, evidence: str) -> None:
    (found,) = checked(spec(claim), made_up())
    assert found.holds is holds
    assert evidence in found.evidence


def test_a_claim_about_what_was_not_run_is_not_checked() -> None:
    assert not checked(spec(Claim(claim="", series="data", check="rises-with-epsilon", epsilon=[77.0])), made_up())


def test_a_sweep_fills_every_cell_from_every_seed() -> None:
    said: list[str] = []
    cells = sweep(spec(), EXTENT, Path("nowhere"), said.append)
    assert set(cells) == {Place("made", "data", epsilon, 0) for epsilon in EXTENT.epsilon} | {
        Place("made", "walk", epsilon, k) for epsilon in EXTENT.epsilon for k in EXTENT.k
    }
    assert all(len(cell.accuracies) == 2 for cell in cells.values())
    data = cells[Place("made", "data", INF, 0)]
    assert [cycle for cycle, _ in data.curve] == [1, 2, 3]
    assert data.mean > 0.9
    assert len(said) == 3
    again = sweep(spec(), EXTENT, Path("nowhere"), said.append)
    assert all(again[place].accuracies == cell.accuracies for place, cell in cells.items())


def test_data_that_is_not_there_is_left_out_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    data = {"absent": {"data.source": "csv:no/where.csv#label=y"}}
    assert not sweep(spec(data=data), EXTENT, tmp_path, said.append)
    assert "left out" in said[0]
    (tmp_path / "here.csv").touch()
    assert anchored("csv:here.csv#label=y", tmp_path) == f"csv:{tmp_path}/here.csv#label=y"


def test_the_page_shows_every_number_and_every_verdict() -> None:
    described = spec(Claim(claim="data is ahead", series="data", check="above", other="walk"))
    cells = made_up()
    page = markdown("name", described, EXTENT, cells, checked(described, cells))
    assert "| series | no noise | ε = 10 | ε = 1 |" in page
    assert "| walk, k = 10 | 0.600 ± 0.000 | 0.500 ± 0.000 | 0.400 ± 0.000 |" in page
    assert "| data is ahead | made | yes |" in page
    assert "](name.svg)" in page


@pytest.mark.parametrize("name", figure_names())
def test_every_figure_is_specified_in_terms_there_are(name: str) -> None:
    figure = figure_named(name)
    for extent in (figure.full, figure.quick):
        for series in figure.series.values():
            for data in figure.data.values():
                values = {**extent.set, **data, **series.set, **dict.fromkeys(series.k, (extent.k or [1])[0])}
                settings({**values, "data.source": "synthetic"}, name)
                assert set(series.k) <= set(KEYS)
    assert figure.findings
    for claim in figure.findings:
        assert claim.series in figure.series
        assert claim.other in {"", "noiseless", *figure.series}
        assert (claim.check in ("not-below", "above")) == bool(claim.other)
    if figure.kind == "grid":
        assert figure.full.epsilon == figure.full.k == [1, 5, 10, 50, 100]
    assert figure.full.runs == 10


def test_all_five_figures_are_there() -> None:
    assert figure_names() == [f"golf-figure-{number}" for number in range(1, 6)]
    with pytest.raises(UsageError, match="no such figure; choose from golf-figure-1"):
        figure_named("golf-figure-9")


def test_without_matplotlib_it_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'sottovoce\[experiments\]'"):
        regenerate("golf-figure-3", quick=True, folder=tmp_path, out=tmp_path / "out", say=print)
    assert not (tmp_path / "out").exists()


def test_without_any_data_set_there_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plots, "pyplot", lambda: None)
    monkeypatch.setattr(
        "sottovoce_lab.experiments.figures.output.figure_named",
        lambda name: spec(data={"absent": {"data.source": "idx:mnist"}}),
    )
    with pytest.raises(DataError, match="name the folder that has them with --data"):
        regenerate("any", quick=True, folder=tmp_path, out=tmp_path / "out", say=lambda text: None)


def test_a_figure_is_regenerated_into_three_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `experiments`")
    for kind in ("grid", "curves"):
        monkeypatch.setattr(
            "sottovoce_lab.experiments.figures.output.figure_named", lambda name, kind=kind: spec(kind=kind)
        )
        regenerate(kind, quick=True, folder=tmp_path, out=tmp_path, say=lambda text: None)
        assert {path.suffix for path in tmp_path.glob(f"{kind}.*")} == {".json", ".md", ".svg"}
        assert (tmp_path / f"{kind}.svg").read_text().lstrip().startswith("<?xml")
