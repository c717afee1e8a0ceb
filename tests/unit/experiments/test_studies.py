"""The studies' plumbing: specifications, runs that are kept, cells, findings and pages, on outcomes made up."""

import json
import math
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.experiments import events, kept_runs
from sottovoce_lab.experiments.kept_runs import Outcome
from sottovoce_lab.experiments.studies import output, studies, study_named
from sottovoce_lab.experiments.studies.cells import Cells, cells, half_interval
from sottovoce_lab.experiments.studies.findings import checked
from sottovoce_lab.experiments.studies.page import markdown
from sottovoce_lab.experiments.studies.runs import Place, asked, conducted
from sottovoce_lab.experiments.studies.specification import Claim, Extent, Part, StudySpec

PRIVACY = {
    "epsilon": 1.0, "delta": 1e-5, "status": "proved", "reason": "so it is", "unit": "record", "mechanism": "noise",
    "neighbouring": "add-remove", "spent_epsilon_max": 1.0,
}  # fmt: skip
EXTENT = Extent(seeds=3, values=[1.0, 4.0], minutes=1)


def spec(*findings: Claim, **changes: Any) -> StudySpec:
    parts: dict[str, Any] = {
        "title": "A study",
        "paper": "A paper, Table 1",
        "shows": "What it shows.",
        "differs": "Why it differs.",
        "axis": "epsilon",
        "axis_label": "ε",
        "panels": {"made": Part(label="Made up", set={"agents": 3})},
        "series": {"good": Part(label="Good"), "bad": Part(label="Bad", set={"learner": "push-sum"})},
        "findings": list(findings),
        "full": EXTENT,
        "quick": EXTENT,
    }
    return StudySpec(**parts | changes)


def outcome(measure: float) -> Outcome:
    return {"measure": measure, "curve": [[1, measure / 2], [2, measure]], "privacy": PRIVACY, "wall_s": 1.0}


def made_up() -> Cells:
    """Good is ahead of bad by 0.2, give or take, and rises with ε."""
    lead = {"good": (0.70, 0.72, 0.74), "bad": (0.50, 0.53, 0.53)}
    return cells(
        {
            Place("made", series, value, seed): outcome(lead[series][seed] + value / 100)
            for series in lead
            for value in (1.0, 4.0)
            for seed in (2, 0, 1)
        }
    )


def test_a_cell_has_its_runs_in_the_order_of_seeds_and_their_mean_curve() -> None:
    cell = made_up()["made", "good", 1.0]
    np.testing.assert_allclose(cell.measures, [0.71, 0.73, 0.75])
    np.testing.assert_allclose(cell.curve, [(1, 0.365), (2, 0.73)])
    assert cell.half == pytest.approx(4.303 * 0.02 / math.sqrt(3), rel=1e-3)


def test_few_seeds_have_no_confidence_interval() -> None:
    assert math.isnan(half_interval(np.array([0.5])))
    assert math.isnan(half_interval(np.array([0.5, 0.6])))


@pytest.mark.parametrize(
    "claim, holds",
    [
        (Claim(claim="", series="good", check="above", than=["bad"]), True),
        (Claim(claim="", series="good", check="above", than=["bad"], margin=0.19), False),
        (Claim(claim="", series="bad", check="above", than=["good"]), False),
        (Claim(claim="", series="good", check="not-below", than=["bad"]), True),
        (Claim(claim="", series="bad", check="not-below", than=["good"], margin=0.1), False),
        (Claim(claim="", series="good", check="at-least", bound=0.72), True),
        (Claim(claim="", series="good", check="at-least", bound=0.74), False),
        (Claim(claim="", series="good", check="at-least", bound=0.74, values=[4.0]), True),
        (Claim(claim="", series="good", check="rises"), True),
        (Claim(claim="", series="good", check="rises", margin=0.04), False),
    ],
)
def test_findings_follow_from_the_runs(claim: Claim, holds: bool) -> None:
    (found,) = checked(spec(claim), made_up())
    assert found.holds is holds
    assert found.evidence


def test_the_papers_values_are_compared_where_a_band_is_given() -> None:
    printed = {"made": {"good": {"1.0": 0.735, "4.0": 0.9}}}
    found = checked(spec(paper_values=printed, band=0.01), made_up())
    assert [finding.holds for finding in found] == [True, False]
    assert checked(spec(paper_values=printed), made_up()) == []


def test_a_page_shows_numbers_guarantees_and_findings() -> None:
    claim = Claim(claim="good beats bad", series="good", check="above", than=["bad"])
    study = spec(claim, paper_values={"made": {"good": {"1.0": 0.8}}})
    page = markdown("name", study, EXTENT, made_up(), checked(study, made_up()))
    assert "| Good | 0.730 ± 0.050 (0.8) | 0.760 ± 0.050 |" in page
    assert "| Good | 1 | 1e-05 | record, add-remove | proved | so it is |" in page
    assert "| good beats bad | Made up | yes |" in page
    assert "![made](name-made.svg)" in page


def test_runs_differ_in_panel_series_value_and_seed_alone(tmp_path: Path) -> None:
    found = asked(spec(), EXTENT, tmp_path, lambda text: None)
    assert len(found) == 2 * 2 * 3
    keys = found[Place("made", "bad", 4.0, 2)]
    assert (keys["agents"], keys["learner"], keys["epsilon"], keys["seed"]) == (3, "push-sum", 4.0, 2)


def test_a_panel_without_its_data_is_left_out_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    panels = {"made": Part(label="Made up", set={"data.source": "npz:nowhere.npz"})}
    assert asked(spec(panels=panels), EXTENT, tmp_path, said.append) == {}
    assert "nowhere.npz is not in" in said[0]


def test_what_was_run_is_kept_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, said = tmp_path / "kept.jsonl", list[str]()
    found = asked(spec(), Extent(seeds=1, values=[1.0], minutes=1), tmp_path, said.append)
    first, second = found
    kept.write_text(json.dumps({"run": kept_runs.digest(found[first]), **outcome(0.25)}) + '\n{"run": "cut o')
    ran: list[dict[str, Any]] = []

    class Here(Executor):
        """Runs in this process, as a pool would in another."""

        def submit(self, _: Any, keys: Any) -> Any:  # type: ignore[override]
            future: Future[Outcome] = Future()
            ran.append(keys)
            future.set_result(outcome(0.75))
            return future

    monkeypatch.setattr(kept_runs, "processes", lambda most: nullcontext(Here()))
    outcomes = conducted(found, "accuracy_mean", kept, said.append)
    assert [outcomes[place]["measure"] for place in (first, second)] == [0.25, 0.75]
    assert ran == [found[second]]
    assert conducted(found, "accuracy_mean", kept, said.append) == outcomes
    assert len(ran) == 1


def test_every_study_that_comes_along_asks_for_runs_that_there_are(tmp_path: Path) -> None:
    assert studies()
    for name in studies():
        study = study_named(name)
        for extent in (study.full, study.quick):
            for part in [*study.panels.values(), *study.series.values()]:
                part.set.pop("data.source", None)
            for keys in asked(study, extent, tmp_path, lambda text: None).values():
                events.options(keys, name)
            for claim in study.findings:
                assert {claim.series, *claim.than} <= study.series.keys(), name
                assert set(claim.panels) <= study.panels.keys(), name


def test_a_study_becomes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = spec(Claim(claim="good beats bad", series="good", check="above", than=["bad"]))
    monkeypatch.setattr(output, "study_named", lambda name: study)
    lead = {"good": 0.7, "bad": 0.5}
    monkeypatch.setattr(
        output,
        "conducted",
        lambda runs, measure, kept, say: {place: outcome(lead[place.series] + place.seed / 100) for place in runs},
    )
    out = tmp_path / "out"
    (found,) = output.conduct("made", quick=False, folder=tmp_path, out=out, say=lambda text: None)
    assert found.holds
    document = json.loads((out / "made.json").read_text())
    assert (document["schema"], len(document["cells"])) == ("sottovoce.study/1", 4)
    assert len((out / "made.csv").read_text().splitlines()) == 1 + 2 * 2 * 3
    assert {path.name for path in out.iterdir()} >= {"made.md", "made-made.svg", "made-made.png"}
    assert (out / "made-made.svg").read_text().lstrip().startswith("<?xml")


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no such study"):
        study_named("nothing")
