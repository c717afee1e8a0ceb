"""Page about a sweep: groups of seeds, means with standard deviations, bands, baselines."""

import json
from html import escape
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import ExitCode
from sottovoce_lab.pages.html import Markup
from sottovoce_lab.pages.plots import Line, Plotter, Rule
from sottovoce_lab.pages.report_types import SweepReport, read_report
from sottovoce_lab.pages.sweep import group_runs, mean_sd, sweep_page

from tests.support.command import run_here


def _run(epsilon: float, seed: int, accuracy: float, learner: str = "clipd2p") -> dict[str, Any]:
    curve = [{"cycle": i, "accuracy_mean": accuracy * i / 4, "loss_mean": 1.0} for i in range(5)]
    return {
        "set": {"learner": learner, "epsilon": epsilon, "seed": seed},
        "final": {"accuracy_mean": accuracy, "accuracy_min": accuracy - 0.1, "loss_mean": 0.5},
        "curve": curve,
        "baselines": {"majority_class": 0.2, "own_data": 0.7},
        "privacy": {"spent_epsilon_max": 0.98761 * epsilon, "status": "proved"},
        "warnings": ["read <this>"],
    }


def _sweep(**others: Any) -> dict[str, Any]:
    runs = [_run(epsilon, seed, 0.5 + 0.1 * epsilon + 0.02 * seed) for epsilon in (1.0, 2.0) for seed in (0, 1, 2)]
    keys = {"learner": ["clipd2p"], "epsilon": [1.0, 2.0], "seed": [0, 1, 2]}
    return {"schema": "sottovoce.sweep/1", "keys": keys, "runs": runs, **others}


class _Hand(Plotter):
    """Stand-in that stores what it would draw."""

    def __init__(self) -> None:
        super().__init__(None)
        self.drawn: list[tuple[str, list[Line], list[Rule]]] = []

    def lines(self, title: str, x_label: str, y_label: str, lines: Any, **options: Any) -> Markup:
        self.drawn.append((x_label, list(lines), list(options.get("rules", ()))))
        return Markup(f"<svg><title>{escape(title)}</title></svg>")


def _read(directory: Path, document: dict[str, Any]) -> SweepReport:
    path = directory / "sweep.json"
    path.write_text(json.dumps(document))
    result = read_report(path)
    assert isinstance(result, SweepReport)
    return result


def test_runs_that_differ_only_in_seed_form_one_row(tmp_path: Path) -> None:
    report, hand = _read(tmp_path, _sweep()), _Hand()
    assert [(group.set["epsilon"], len(group.runs)) for group in group_runs(report)] == [(1.0, 3), (2.0, 3)]
    page = sweep_page(report, hand)
    for words in ("6 runs: 2 settings, 3 seeds", "0.620 ± 0.020", "0.720 ± 0.020", "0.700 ± 0.000", "1.976", "proved"):
        assert words in page, words
    assert page.count("read &lt;this&gt;") == 1


def test_curves_have_bands_and_baselines(tmp_path: Path) -> None:
    hand = _Hand()
    sweep_page(_read(tmp_path, _sweep()), hand)
    (over_epsilon, lines, rules), (over_cycles, curves, _) = hand.drawn
    assert (over_epsilon, over_cycles) == ("epsilon", "cycle")
    assert lines[0].x == [1.0, 2.0]
    assert lines[0].y == pytest.approx([0.62, 0.72])
    assert lines[0].high[0] - lines[0].y[0] == pytest.approx(0.02)
    assert [rule.label for rule in rules] == ["own data alone", "most common class"]
    assert [rule.value for rule in rules] == pytest.approx([0.7, 0.2])
    assert [curve.label for curve in curves] == ["epsilon = 1.0", "epsilon = 2.0"]
    assert len(curves[0].low) == 5


def test_a_single_seed_has_no_deviation(tmp_path: Path) -> None:
    document = _sweep(keys={"epsilon": [1.0, 2.0]}, runs=[_run(1.0, 0, 0.6), _run(2.0, 0, 0.7)])
    hand = _Hand()
    page = sweep_page(_read(tmp_path, document), hand)
    assert " ± 0" not in page
    assert hand.drawn[0][1][0].low == ()
    assert mean_sd([]) == "–"


def test_a_sweep_without_numbers_or_curves_is_a_table(tmp_path: Path) -> None:
    runs = [{**_run(1.0, 0, 0.6, name), "curve": [], "baselines": None} for name in ("clipd2p", "golf")]
    hand = _Hand()
    page = sweep_page(_read(tmp_path, _sweep(keys={"learner": ["clipd2p", "golf"]}, runs=runs)), hand)
    assert hand.drawn == []
    assert "golf" in page


def test_the_command_reads_both_schemas_and_names_an_unknown_one(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(_sweep()))
    completed = run_here("report", path)
    assert (completed.code, completed.out.strip()) == (0, str(path.with_suffix(".html")))
    assert path.with_suffix(".html").read_text().count('role="img"') == 2
    path.write_text(json.dumps({"schema": "sottovoce.status/1"}))
    completed = run_here("report", path)
    assert completed.code == ExitCode.DATA
    assert "found schema sottovoce.status/1, expected sottovoce.report/1 or sottovoce.sweep/1" in completed.err
