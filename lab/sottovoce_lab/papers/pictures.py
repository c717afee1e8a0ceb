"""Draw SVG pictures of experiments for a printed page, with error bars, printed values and the majority class."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce_lab.pages.pyplot import pyplot
from sottovoce_lab.papers.cells import Cell, Cells
from sottovoce_lab.papers.specification import Experiment

_WIDTH = 6.9  # inches, which is the width of an A4 page between its margins
_HEIGHT = 2.6
_MAX_COLUMNS = 2
_STYLE = {"font.size": 7.5, "axes.titlesize": 8, "legend.fontsize": 7, "lines.linewidth": 1.1, "axes.linewidth": 0.6}
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
    panels = list(dict.fromkeys(where[0] for where in cells))
    wanted: list[tuple[str, str]] = [
        (panel, of)
        for panel in panels
        for of in (
            _heats(spec, cells, panel)
            if spec.picture == "heat"
            else spec.curves
            if spec.picture == "curves"
            else [spec.measure]
        )
    ]
    columns = min(len(wanted), _MAX_COLUMNS if spec.picture != "heat" else 3)
    rows = math.ceil(len(wanted) / columns)
    with plt.rc_context(_STYLE):
        figure, grid = plt.subplots(
            rows, columns, figsize=(_WIDTH, _HEIGHT * rows + 0.5), squeeze=False, layout="constrained"
        )
        for axes in grid.flat[len(wanted) :]:
            axes.set_visible(False)
        for (panel, of), axes in zip(wanted, grid.flat, strict=False):
            series = f"\n{spec.series[of].label}" if spec.picture == "heat" else ""
            axes.set_title(f"{spec.panels[panel].label}{series}", fontsize=7 if series else None)
            {"heat": _heat, "curves": _curves}.get(spec.picture, _line)(spec, cells, panel, of, axes)
        handles, labels = grid[0][0].get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=3)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _line(spec: Experiment, cells: Cells, panel: str, measure: str, axes: Any) -> None:
    """Plot the measure over the x axis with confidence intervals, and printed values as hollow diamonds."""
    values = list(dict.fromkeys(where[2] for where in cells if where[0] == panel))
    numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    # Words have no order, so their points are drawn side by side without a line.
    words = any(isinstance(value, str) for value in values)
    places = {value: value if numbers else place for place, value in enumerate(values)}
    shown = _series(cells, panel)
    for number, series in enumerate(shown):
        aside = 0.12 * (number - (len(shown) - 1) / 2) if words else 0.0
        mine = {x: cell for (at, name, x, _), cell in cells.items() if (at, name) == (panel, series)}
        halves = [0.0 if math.isnan(cell.half) else cell.half for cell in mine.values()]
        axes.errorbar(
            [places[x] + aside for x in mine], [cell.mean for cell in mine.values()], halves, color=f"C{number % 10}",
            marker=_MARKERS[number % len(_MARKERS)], markersize=3, capsize=2, label=spec.series[series].label,
            linestyle="none" if words else "-",
        )  # fmt: skip
        printed = spec.printed.get(panel, {}).get(series, {})
        at = [(places[x] + aside, printed[str(x)]) for x in values if str(x) in printed]
        if at:
            axes.plot(*zip(*at, strict=True), "D", color=f"C{number % 10}", markerfacecolor="none", markersize=5)
    if spec.printed.get(panel):
        axes.plot([], [], "D", color="0.3", markerfacecolor="none", markersize=5, label="printed in the paper")
    _majority(cells, panel, measure, axes)
    if measure == "accuracy_mean":
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0.0), min(high, 1.02))  # an interval from few seeds may exceed the possible range
    axes.set_xlabel(spec.x.label if spec.x else "")
    axes.set_ylabel(_AXES.get(measure, measure))
    spread = numbers and min(values) > 0 and max(values) >= 8 * min(values)
    if spread:
        axes.set_xscale("log")
    ticks = _without_common_part([_format_value(value) for value in values])
    long = not numbers and max(map(len, ticks)) > 6
    turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
    axes.set_xticks([places[value] for value in values], ticks, **turned)
    axes.minorticks_off()


def _curves(spec: Experiment, cells: Cells, panel: str, measure: str, axes: Any) -> None:
    """Plot the measure over cycles with confidence bands, using one line style per x value."""
    drawn: list[float] = []
    for number, series in enumerate(_series(cells, panel)):
        for style, x in zip(("-", "--", ":", "-."), _xs(cells, panel, series), strict=False):
            for where, cell in cells.items():
                if where[:3] != (panel, series, x) or not cell.curves.get(measure):
                    continue
                cycles, means, halves = np.array(cell.curves[measure]).T
                drawn += means.tolist()
                label = spec.series[series].label + (f", {spec.x.label} = {_format_value(x)}" if spec.x else "")
                axes.plot(cycles, means, style, color=f"C{number % 10}", label=label)
                if not np.isnan(halves).any():
                    low, high = means - halves, means + halves
                    if measure == "accuracy_mean":
                        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
                    axes.fill_between(cycles, low, high, color=f"C{number % 10}", alpha=0.15, lw=0)
    _majority(cells, panel, measure, axes)
    if spec.log_cycles:
        axes.set_xscale("log")
    if drawn and 0 < min(drawn) < max(drawn) / _DECADES:
        axes.set_yscale("log")
    axes.set_xlabel(spec.cycle)
    axes.set_ylabel(_AXES.get(measure, measure))


def _heat(spec: Experiment, cells: Cells, panel: str, series: str, axes: Any) -> None:
    """Plot the measure over both axes, with y pointing up. A series that does not depend on x is the left column."""
    xs, ys = _xs(cells, panel, series), list(dict.fromkeys(where[3] for where in cells if where[0] == panel))
    ys = sorted(ys)
    column = spec.series[series].column
    names = [*([(column, xs[0])] if column else []), *((series, x) for x in xs)]
    values = np.array([[_mean(cells.get((panel, name, x, y))) for name, x in names] for y in ys])
    everything = [cell.mean for where, cell in cells.items() if where[0] == panel]
    axes.imshow(values, origin="lower", aspect="auto", cmap="cividis", vmin=min(everything), vmax=max(everything))
    middle = (min(everything) + max(everything)) / 2
    for (row, place), value in np.ndenumerate(values):
        colour = "black" if value > middle else "white"
        axes.text(place, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=6, color=colour)
    labels = [*(["data"] if column else []), *(_format_value(x) for x in xs)]
    axes.set_xticks(range(len(names)), labels)
    axes.set_yticks(range(len(ys)), [_format_value(y) for y in ys])
    axes.set_xlabel(spec.x.label if spec.x else "")
    axes.set_ylabel(spec.y.label if spec.y else "")


def _majority(cells: Cells, panel: str, measure: str, axes: Any) -> None:
    rules = [cell.majority for where, cell in cells.items() if where[0] == panel and cell.majority is not None]
    if rules and measure == "accuracy_mean":
        axes.axhline(float(np.mean(rules)), color="0.5", linestyle=(0, (1, 2)), linewidth=0.8, label="majority class")


def _heats(spec: Experiment, cells: Cells, panel: str) -> list[str]:
    return [series for series in _series(cells, panel) if not spec.series[series].hidden]


def _series(cells: Cells, panel: str) -> list[str]:
    return list(dict.fromkeys(where[1] for where in cells if where[0] == panel))


def _xs(cells: Cells, panel: str, series: str) -> list[Any]:
    return list(dict.fromkeys(where[2] for where in cells if where[:2] == (panel, series)))


def _mean(cell: Cell | None) -> float:
    return math.nan if cell is None else cell.mean


def _without_common_part(words: list[str]) -> list[str]:
    """Return fault specifications without the part before the @ if all of them share it."""
    parts = [word.partition("@") for word in words]
    return [part[2] for part in parts] if len({part[0] for part in parts}) == 1 and all(p[2] for p in parts) else words


def _format_value(value: Any) -> str:
    return "∞" if value == math.inf else f"{value:g}" if isinstance(value, int | float) else str(value)
