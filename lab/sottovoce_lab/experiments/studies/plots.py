"""A panel of a study as SVG and PNG."""

import math
from pathlib import Path

from sottovoce_lab.experiments.studies.cells import Cells
from sottovoce_lab.experiments.studies.specification import StudySpec
from sottovoce_lab.pages.pyplot import pyplot

_INCHES = (6.4, 4.2)


def draw(spec: StudySpec, cells: Cells, panel: str, path: Path) -> None:
    """Draw one panel into `path` with the suffixes .svg and .png.

    Raises:
        UsageError: matplotlib is not installed.
    """
    plt = pyplot()
    figure, axes = plt.subplots(figsize=_INCHES, layout="constrained")
    mine = {(series, value): cell for (at, series, value), cell in cells.items() if at == panel}
    values = list(dict.fromkeys(value for _, value in mine))
    numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    for number, series in enumerate(dict.fromkeys(series for series, _ in mine)):
        colour, label = f"C{number}", spec.series[series].label
        there = [value for value in values if (series, value) in mine]
        if spec.plot == "cycles" or not spec.axis:
            curve = mine[series, there[-1]].curve
            axes.plot(*zip(*curve, strict=True), color=colour, label=label)
            continue
        means = [mine[series, value].mean for value in there]
        halves = [0.0 if math.isnan(mine[series, value].half) else mine[series, value].half for value in there]
        places = there if numbers else [str(value) for value in there]
        axes.errorbar(places, means, halves, fmt="o-", color=colour, markersize=3, capsize=2, label=label)
    axes.set_title(spec.panels[panel].label, fontsize="medium")
    over_cycles = spec.plot == "cycles" or not spec.axis
    axes.set_xlabel("cycle" if over_cycles else spec.axis_label)
    if not over_cycles and numbers and min(values) > 0 and max(values) >= 8 * min(values):
        axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
    axes.set_ylabel(spec.measure.removesuffix("_mean"))
    if spec.measure.startswith("accuracy"):
        axes.set_ylim(0, 1)
    axes.legend(fontsize="small")
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120)
    plt.close(figure)
