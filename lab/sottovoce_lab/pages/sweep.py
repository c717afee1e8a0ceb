"""The page about a sweep, with curves, bands over seeds and a table of means and standard deviations."""

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.privacy.accounting.gaussian import format_rounded_up

from sottovoce_lab.pages.comparison import MEASURES
from sottovoce_lab.pages.html import Markup, Page, figure, heading, paragraph, table, warnings
from sottovoce_lab.pages.plots import Line, Plotter, Rule
from sottovoce_lab.pages.report_types import SweepReport, SweptRun

_MAX_LINES = 6
_SEED = "seed"


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ only in their seeds.

    Attributes:
        set: the values that these runs have for the sweep's other keys.
        runs: the runs, at least one.
    """

    set: dict[str, Any]
    runs: list[SweptRun]

    @property
    def name(self) -> str:
        """A description of the group's values."""
        return ", ".join(f"{key} = {value}" for key, value in self.set.items()) or "all runs"

    def final_values(self, field: str) -> list[float]:
        """Return the final value of each run that has the field."""
        values = (run.final.get(field) for run in self.runs)
        return [float(value) for value in values if isinstance(value, int | float)]


def group_runs(report: SweepReport) -> list[Group]:
    """Return a sweep's groups, in the order of its runs."""
    varied = [key for key, values in report.keys.items() if key != _SEED and len(values) > 1]
    groups: dict[str, Group] = {}
    for run in report.runs:
        settings = {key: run.set.get(key) for key in varied}
        groups.setdefault(json.dumps(settings, default=str), Group(settings, [])).runs.append(run)
    return list(groups.values())


def sweep_page(report: SweepReport, plotter: Plotter) -> str:
    """Return a sweep's page as HTML."""
    groups = group_runs(report)
    measure = next(name for name in MEASURES if name == "loss" or any(g.final_values(f"{name}_mean") for g in groups))
    seeds = len(report.keys.get(_SEED, [])) or 1
    page = Page(f"Sweep over {', '.join(report.keys) or 'nothing'}")
    page.add(
        paragraph(f"{len(report.runs)} runs: {len(groups)} settings, {seeds} seed{'s' if seeds > 1 else ''}.", "lead")
    )
    page.add(warnings(_merge_similar([warning for run in report.runs for warning in run.warnings])))
    page.add(heading("Results"), _table(groups, measure))
    page.add(*_result_plot(report, groups, measure, plotter), *_curves(groups, measure, plotter))
    return page.html()


def _merge_similar(messages: list[str]) -> list[str]:
    """Merge warnings that differ only in decimal numbers, adding the number of runs affected."""
    kinds: dict[str, list[str]] = {}
    for warning in messages:
        kinds.setdefault(re.sub(r"\d+\.\d+", "", warning), []).append(warning)
    return [similar[0] if len(similar) == 1 else f"{similar[0]} (in {len(similar)} runs)" for similar in kinds.values()]


def mean_sd(values: Sequence[float]) -> str:
    """Format the mean ± sample standard deviation, or only the mean if there is a single value."""
    if not values:
        return "–"
    mean = statistics.fmean(values)
    return f"{mean:.3f}" if len(values) == 1 else f"{mean:.3f} ± {statistics.stdev(values):.3f}"


def _table(groups: list[Group], measure: str) -> Markup:
    columns = [*groups[0].set, "seeds", MEASURES[measure]]
    has_baselines = measure == "accuracy"
    columns += ["worst agent", "own data", "majority"] if has_baselines else []
    columns += ["worst agent", "own data", "persistence", "same time yesterday"] if measure == "mae" else []
    rows = []
    for group in groups:
        cells = [*(str(value) for value in group.set.values()), f"{len(group.runs)}"]
        cells.append(mean_sd(group.final_values(f"{measure}_mean")))
        if has_baselines:
            cells.append(mean_sd(group.final_values("accuracy_min")))
            cells += [mean_sd(_baseline_values(group, name)) for name in ("own_data", "majority_class")]
        spent = [run.privacy.get("spent_epsilon_max") for run in group.runs]
        finite = [value for value in spent if value is not None]
        if measure == "mae":
            fields = ("mae_max", "mae_own_data", "mae_persistence", "mae_same_time_yesterday")
            cells += [mean_sd(group.final_values(field)) for field in fields]
        rows.append(
            [*cells, format_rounded_up(max(finite)) if finite else "–", str(group.runs[0].privacy.get("status", "–"))]
        )
    caption = "Means over seeds ± sample standard deviation"
    if has_baselines:
        caption += "; own data: a device alone, without noise; majority: the most common class"
    return table(caption, [*columns, "ε spent", "status"], rows)


def _baseline_values(group: Group, name: str) -> list[float]:
    return [getattr(run.baselines, name) for run in group.runs if run.baselines is not None]


def _result_plot(report: SweepReport, groups: list[Group], measure: str, plotter: Plotter) -> list[Markup]:
    """Plot the result over the first numeric key, with one line per setting of the other keys."""
    axis = next(
        (
            key
            for key, values in report.keys.items()
            if key != _SEED and len(values) > 1 and all(map(_is_number, values))
        ),
        None,
    )
    if axis is None:
        return []
    lines: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: float(group.set[axis])):
        label = ", ".join(f"{key} = {value}" for key, value in group.set.items() if key != axis)
        lines.setdefault(label, []).append(group)
    curves = [
        _line(name or MEASURES[measure], axis, line_groups, f"{measure}_mean") for name, line_groups in lines.items()
    ]
    caption = f"{MEASURES[measure].capitalize()} over {axis}; bands are one standard deviation over seeds"
    limits = {"bottom": 0.0, "top": 1.0} if measure == "accuracy" else {}
    picture = plotter.lines(
        caption,
        axis,
        MEASURES[measure],
        curves[:_MAX_LINES],
        rules=_reference_lines(groups) if limits else (),
        **limits,
    )
    return [
        heading(f"{MEASURES[measure].capitalize()} over {axis}"),
        figure(picture, f"{caption}.{_omission_note(len(curves))}"),
    ]


def _reference_lines(groups: list[Group]) -> list[Rule]:
    names = {"own data alone": "own_data", "most common class": "majority_class"}
    values_by_label = {
        label: [value for group in groups for value in _baseline_values(group, name)] for label, name in names.items()
    }
    return [Rule(label, statistics.fmean(values)) for label, values in values_by_label.items() if values]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _line(name: str, axis: str, groups: list[Group], field: str) -> Line:
    """Return a line over an axis, with a band of one standard deviation if there are several seeds."""
    groups = [group for group in groups if group.final_values(field)]
    means = [statistics.fmean(group.final_values(field)) for group in groups]
    spread = [_sd(group.final_values(field)) for group in groups]
    return _line_with_band(name, [float(group.set[axis]) for group in groups], means, spread)


def _sd(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _line_with_band(name: str, x: list[float], means: list[float], spread: list[float]) -> Line:
    if not any(spread):
        return Line(name, x, means)
    low = [mean - sd for mean, sd in zip(means, spread, strict=True)]
    high = [mean + sd for mean, sd in zip(means, spread, strict=True)]
    return Line(name, x, means, low, high)


def _curves(groups: list[Group], measure: str, plotter: Plotter) -> list[Markup]:
    """Plot the measure over cycles, with one line per setting and a band over its seeds."""
    field = f"{measure}_mean"
    lines = [line for group in groups if (line := _curve(group, field)) is not None]
    if not lines:
        return []
    caption = f"{MEASURES[measure].capitalize()} over cycles; bands are one standard deviation over seeds"
    limits = {"bottom": 0.0, "top": 1.0} if measure == "accuracy" else {}
    picture = plotter.lines(
        caption,
        "cycle",
        MEASURES[measure],
        lines[:_MAX_LINES],
        rules=_reference_lines(groups) if limits else (),
        **limits,
    )
    return [
        heading(f"{MEASURES[measure].capitalize()} over cycles"),
        figure(picture, f"{caption}.{_omission_note(len(lines))}"),
    ]


def _curve(group: Group, field: str) -> Line | None:
    points: dict[float, list[float]] = {}
    for run in group.runs:
        for point in run.curve:
            cycle, value = point.get("cycle"), point.get(field)
            if isinstance(cycle, int | float) and isinstance(value, int | float):
                points.setdefault(float(cycle), []).append(float(value))
    complete = {cycle: values for cycle, values in sorted(points.items()) if len(values) == len(group.runs)}
    if not complete:
        return None
    return _line_with_band(
        group.name,
        list(complete),
        [statistics.fmean(v) for v in complete.values()],
        [_sd(v) for v in complete.values()],
    )


def _omission_note(lines: int) -> str:
    return f" The first {_MAX_LINES} of {lines} settings are drawn; the table lists all." if lines > _MAX_LINES else ""
