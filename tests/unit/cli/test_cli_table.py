"""Console view of a run: a live table in a terminal, occasional lines elsewhere, and the comparison."""

import io
import re
from typing import Any

import pytest
from rich.console import Console
from sottovoce_lab.cli import table
from sottovoce_lab.cli.table import ConsoleWatcher
from sottovoce_lab.testbed.measure import Errors, Metrics, PredictionErrors, Quality
from sottovoce_lab.testbed.progress import Moment

_ACCURACIES = Metrics(0.81, 0.7, 0.9, 0.5)
_ERRORS = Errors(0.5, 0.123, 0.2, 0.1, 0.1, 0.01, 0.4, 2.0)
_PREDICTED = PredictionErrors(0.5, 0.123, 0.3, 0.2, 0.4, 0.11, 0.15, 0.19, None, "kWh")


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def output(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return all output, to a terminal or to a pipe."""
    out = io.StringIO()

    def console(**_: Any) -> Console:
        return Console(file=out, force_terminal=request.param, width=200, color_system=None, highlight=False)

    monkeypatch.setattr(table, "Console", console)
    return out


def _moment(cycle: int, measures: Quality = _ACCURACIES) -> Moment:
    return Moment(cycle, 30, 2.0 * cycle, 9, measures, 0.25, 1000, 2_000_000)


@pytest.mark.parametrize(
    "measures, words",
    [(_ACCURACIES, ("0.810", "0.700", "0.900")), (_ERRORS, ("0.123", "0.2")), (_PREDICTED, ("0.123", "0.3", "0.19"))],
)
def test_each_event_in_a_run_is_shown_with_its_measures(
    output: io.StringIO, measures: Quality, words: tuple[str, ...]
) -> None:
    with ConsoleWatcher(quiet=False) as watcher:
        watcher.advance("agents ready", 3, 9)
        watcher.advance("agents ready", 9, 9)
        watcher.show_moment(_moment(10, measures))
        watcher.note("agent 3 was restarted")
        watcher.show_moment(_moment(30, measures))
    text = output.getvalue()
    assert "30 of 30" in text
    assert "agent 3 was restarted" in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("output", [False], indirect=True)
def test_without_a_terminal_only_some_cycles_have_a_line(output: io.StringIO) -> None:
    with ConsoleWatcher(quiet=False) as watcher:
        for cycle in range(1, 31):
            watcher.show_moment(_moment(cycle))
    lines = re.findall(r"cycle (\d+) of 30", output.getvalue())
    assert lines[-1] == "30"
    assert 5 <= len(lines) < 30


def test_a_phase_after_the_summary_shows_its_progress_alone(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_PATIENCE_SECONDS", -1.0)
    watcher = ConsoleWatcher(quiet=False)
    with watcher:
        watcher.show_moment(_moment(30))
    before = len(output.getvalue())
    with watcher:
        watcher.advance("simulations", 2, 9)
    after = output.getvalue()[before:]
    assert re.search(r"2 of 9 simulations|simulations .*2/9", after)
    assert "0.810" not in after


def test_a_comparison_is_sorted_by_accuracy_with_intervals(output: io.StringIO) -> None:
    report = {
        "run": {"agents": 12},
        "baselines": {"majority_class": 0.1, "own_data": 0.84},
        "privacy": {"epsilon": 2.0, "threat_model": "local: anyone on the network; more"},
        "final": {"accuracy_mean": 0.88},
        "comparisons": [
            {
                "accuracy_mean": 0.95,
                "half_interval": 0.004,
                "label": "no noise",
                "promise": "no one: no ε",
                "seeds": 3,
            }
        ],
    }
    ConsoleWatcher(quiet=False).compare(report)
    lines = [line for line in output.getvalue().splitlines() if re.match(r"0\.\d", line)]
    assert [line[:5] for line in lines] == ["0.100", "0.840", "0.880", "0.950"]
    assert "this run: 12 devices, ε = 2" in lines[2]
    assert "anyone on the network" in lines[2]
    assert "± 0.004" in lines[3]
    assert "means of 3 seeds" in output.getvalue()


@pytest.mark.parametrize(
    "final, comparisons, first, last",
    [
        (
            {"mae_mean": 0.083, "mae_least_squares": 0.071, "mae_own_data": 0.09, "mae_persistence": 0.11,
             "mae_same_time_yesterday": None, "rmse_mean": 0.2},
            [{"mae_mean": 0.078, "half_interval": 0.001, "label": "no noise", "promise": "no one", "seeds": 3}],
            "0.11 ", "0.071",
        ),
        ({"mae_mean": 0.2, "rmse_mean": 0.3, "rmse_prior": 0.5, "rmse_clip": 0.01}, [], "0.5 ", "0.01"),
    ],
    ids=["forecasts", "means"],
)  # fmt: skip
def test_errors_are_compared_from_the_largest_to_the_smallest(
    final: dict[str, Any], comparisons: list[dict[str, Any]], first: str, last: str, output: io.StringIO
) -> None:
    report = {
        "run": {"agents": 6},
        "baselines": None,
        "privacy": {"epsilon": None, "threat_model": "none"},
        "final": {"accuracy_mean": None, **final},
        "comparisons": comparisons,
    }
    ConsoleWatcher(quiet=False).compare(report)
    lines = [line for line in output.getvalue().splitlines() if re.match(r"0\.\d", line)]
    assert lines[0].startswith(first)
    assert lines[-1].startswith(last)
    assert any("this run: 6 devices, no ε" in line for line in lines)
    assert len(lines) == 1 + len(comparisons) + sum(
        final.get(key) is not None
        for key in ("mae_least_squares", "mae_own_data", "mae_persistence", "rmse_prior", "rmse_clip")
    )
