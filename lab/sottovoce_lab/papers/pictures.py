"""Draw SVG pictures of experiments for a printed page, with error bars, printed values and the majority class."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce_lab.pages.pyplot import pyplot
from sottovoce_lab.papers.cells import Cell, Cells, format_value, measure_range
from sottovoce_lab.papers.specification import Experiment

_WIDTH = 6.9  # inches, the width of an A4 page between its margins
_HEIGHT = 2.6
_MAX_COLUMNS = 2
STORED = ("line", "heat")
"""The kinds of picture that need only the values in a result's file."""

_STYLE = {
    "svg.hashsalt": "sottovoce",  # equal pictures have equal files
    "font.size": 7.5,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "lines.linewidth": 1.1,
    "axes.linewidth": 0.6,
}
_MARKERS = "osv^D<>Pp*XhH"
_DECADES = 1000.0  # the axis is logarithmic if the largest value is more than this many times the smallest
_AXES = {
    "accuracy_mean": "accuracy",
    "loss_mean": "loss",
    "rmse_mean": "root mean squared error",
    "gradient_norm": "norm of the gradient",
}


def draw(spec: Experiment, cells: Cells, path: Path) -> None:
    """Draw an experiment's panels in an SVG file.

    Raises:
        UsageError: if matplotlib is not installed.
    """
    plt = pyplot()
    panels = list(dict.fromkeys(key[0] for key in cells))
    plots: list[tuple[str, str]] = [
        (panel, name)
        for panel in panels
        for name in (
            _heat_maps(spec, cells, panel)
            if spec.picture == "heat"
            else spec.curves
            if spec.picture == "curves"
            else [spec.measure]
        )
    ]
    columns = min(len(plots), _MAX_COLUMNS if spec.picture != "heat" else 3)
    rows = math.ceil(len(plots) / columns)
    with plt.rc_context(_STYLE):
        figure, grid = plt.subplots(
            rows, columns, figsize=(_WIDTH, _HEIGHT * rows + 0.5), squeeze=False, layout="constrained"
        )
        for axes in grid.flat[len(plots) :]:
            axes.set_visible(False)
        for (panel, name), axes in zip(plots, grid.flat, strict=False):
            series = f"\n{spec.series[name].label}" if spec.picture == "heat" else ""
            axes.set_title(f"{spec.panels[panel].label}{series}", fontsize=7 if series else None)
            {"heat": _heat, "curves": _curves}.get(spec.picture, _line)(spec, cells, panel, name, axes)
        handles, labels = grid[0][0].get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=3)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _line(spec: Experiment, cells: Cells, panel: str, measure: str, axes: Any) -> None:
    """Plot the measure over the x axis with confidence intervals, and printed values as hollow diamonds."""
    values = list(dict.fromkeys(key[2] for key in cells if key[0] == panel))
    numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    # Words have no order, so their points are drawn side by side without a line.
    has_words = any(isinstance(value, str) for value in values)
    positions = {value: value if numbers else index for index, value in enumerate(values)}
    series_names = _series(cells, panel)
    for number, series in enumerate(series_names):
        offset = 0.12 * (number - (len(series_names) - 1) / 2) if has_words else 0.0
        series_cells = {
            x: cell for (cell_panel, name, x, _), cell in cells.items() if (cell_panel, name) == (panel, series)
        }
        means = np.array([cell.mean for cell in series_cells.values()])
        intervals = [cell.interval(measure) or (cell.mean, cell.mean) for cell in series_cells.values()]
        lows, highs = np.array(intervals).T
        axes.errorbar(
            [positions[x] + offset for x in series_cells], means, (means - lows, highs - means),
            color=f"C{number % 10}", marker=_MARKERS[number % len(_MARKERS)], markersize=3, capsize=2,
            label=spec.series[series].label, linestyle="none" if has_words else "-",
        )  # fmt: skip
        printed = spec.printed.get(panel, {}).get(series, {})
        printed_points = [(positions[x] + offset, printed[str(x)]) for x in values if str(x) in printed]
        if printed_points:
            axes.plot(
                *zip(*printed_points, strict=True), "D", color=f"C{number % 10}", markerfacecolor="none", markersize=5
            )
    if spec.printed.get(panel):
        axes.plot([], [], "D", color="0.3", markerfacecolor="none", markersize=5, label="printed in the paper")
    _majority(cells, panel, measure, axes)
    axes.set_xlabel(spec.x.label if spec.x else "")
    axes.set_ylabel(_AXES.get(measure, measure))
    spans_decades = numbers and min(values) > 0 and max(values) >= 8 * min(values)
    if spans_decades:
        axes.set_xscale("log")
    ticks = _without_common_part([format_value(value) for value in values])
    has_long_labels = not numbers and max(map(len, ticks)) > 6
    rotation = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if has_long_labels else {}
    axes.set_xticks([positions[value] for value in values], ticks, **rotation)
    axes.minorticks_off()


def _curves(spec: Experiment, cells: Cells, panel: str, measure: str, axes: Any) -> None:
    """Plot the measure over cycles with confidence bands, using one line style per x value."""
    all_means: list[float] = []
    for number, series in enumerate(_series(cells, panel)):
        for style, x in zip(("-", "--", ":", "-."), _xs(cells, panel, series), strict=False):
            for key, cell in cells.items():
                if key[:3] != (panel, series, x) or not cell.curves.get(measure):
                    continue
                cycles, means, halves = np.array(cell.curves[measure]).T
                all_means += means.tolist()
                label = spec.series[series].label + (f", {spec.x.label} = {format_value(x)}" if spec.x else "")
                axes.plot(cycles, means, style, color=f"C{number % 10}", label=label)
                if not np.isnan(halves).any():
                    low, high = np.clip((means - halves, means + halves), *measure_range(measure))
                    axes.fill_between(cycles, low, high, color=f"C{number % 10}", alpha=0.15, lw=0)
    _majority(cells, panel, measure, axes)
    if spec.log_cycles:
        axes.set_xscale("log")
    if all_means and 0 < min(all_means) < max(all_means) / _DECADES:
        axes.set_yscale("log")
    axes.set_xlabel(spec.cycle)
    axes.set_ylabel(_AXES.get(measure, measure))


def _heat(spec: Experiment, cells: Cells, panel: str, series: str, axes: Any) -> None:
    """Plot the measure over both axes, with y pointing up. A series that does not depend on x is the left column."""
    xs, ys = _xs(cells, panel, series), list(dict.fromkeys(key[3] for key in cells if key[0] == panel))
    ys = sorted(ys)
    column = spec.series[series].column
    names = [*([(column, xs[0])] if column else []), *((series, x) for x in xs)]
    values = np.array([[_mean(cells.get((panel, name, x, y))) for name, x in names] for y in ys])
    means = [cell.mean for key, cell in cells.items() if key[0] == panel]
    axes.imshow(values, origin="lower", aspect="auto", cmap="cividis", vmin=min(means), vmax=max(means))
    midpoint = (min(means) + max(means)) / 2
    for (row, column_index), value in np.ndenumerate(values):
        colour = "black" if value > midpoint else "white"
        axes.text(column_index, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=6, color=colour)
    labels = [*(["data"] if column else []), *(format_value(x) for x in xs)]
    axes.set_xticks(range(len(names)), labels)
    axes.set_yticks(range(len(ys)), [format_value(y) for y in ys])
    axes.set_xlabel(spec.x.label if spec.x else "")
    axes.set_ylabel(spec.y.label if spec.y else "")


def _majority(cells: Cells, panel: str, measure: str, axes: Any) -> None:
    majorities = [cell.majority for key, cell in cells.items() if key[0] == panel and cell.majority is not None]
    if majorities and measure == "accuracy_mean":
        axes.axhline(
            float(np.mean(majorities)), color="0.5", linestyle=(0, (1, 2)), linewidth=0.8, label="majority class"
        )


def _heat_maps(spec: Experiment, cells: Cells, panel: str) -> list[str]:
    return [series for series in _series(cells, panel) if not spec.series[series].hidden]


def _series(cells: Cells, panel: str) -> list[str]:
    return list(dict.fromkeys(key[1] for key in cells if key[0] == panel))


def _xs(cells: Cells, panel: str, series: str) -> list[Any]:
    return list(dict.fromkeys(key[2] for key in cells if key[:2] == (panel, series)))


def _mean(cell: Cell | None) -> float:
    return math.nan if cell is None else cell.mean


def _without_common_part(specifications: list[str]) -> list[str]:
    """Return fault specifications without the part before the @ if all of them share it."""
    parts = [specification.partition("@") for specification in specifications]
    share_prefix = len({part[0] for part in parts}) == 1 and all(part[2] for part in parts)
    return [part[2] for part in parts] if share_prefix else specifications
