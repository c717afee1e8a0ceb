"""A figure as SVG."""

from pathlib import Path
from typing import Any

from sottovoce_lab.experiments.figures.specification import Extent, FigureSpec
from sottovoce_lab.experiments.figures.sweep import Cells
from sottovoce_lab.pages.pyplot import pyplot

_INCHES = (5.0, 3.8)


def draw(spec: FigureSpec, extent: Extent, cells: Cells, path: Path) -> None:
    """Draw curves or grids, one panel a data set.

    Raises:
        UsageError: matplotlib is not installed.
    """
    plt = pyplot()
    names = list(dict.fromkeys(place.data for place in cells))
    figure, axes = plt.subplots(
        1, len(names), figsize=(_INCHES[0] * len(names), _INCHES[1]), squeeze=False, layout="constrained"
    )
    for name, panel in zip(names, axes[0], strict=True):
        panel.set_title(name)
        panel.set_ylabel("accuracy")
        if spec.kind == "curves":
            _curves(spec, extent, cells, name, panel)
        else:
            _lines(spec, extent, cells, name, panel)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    figure.suptitle(spec.title)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _curves(spec: FigureSpec, extent: Extent, cells: Cells, data: str, panel: Any) -> None:
    """Accuracy over cycles: a colour for each ε, a line style for each series."""
    panel.set_xlabel("cycle, or pass over all records")
    panel.set_xscale("log")
    for style, (series, described) in zip(("-", "--", ":", "-."), spec.series.items(), strict=False):
        for number, epsilon in enumerate(extent.epsilon):
            for place, cell in cells.items():
                if (place.data, place.series, place.epsilon) == (data, series, epsilon) and cell.curve:
                    noise = "no noise" if epsilon == float("inf") else f"ε = {epsilon:g}"
                    panel.plot(
                        *zip(*cell.curve, strict=True), style, color=f"C{number}", label=f"{described.label}, {noise}"
                    )


def _lines(spec: FigureSpec, extent: Extent, cells: Cells, data: str, panel: Any) -> None:
    """Accuracy over ε: a colour for each series, fainter for a smaller k."""
    panel.set_xlabel("ε")
    panel.set_xscale("log")
    for number, (series, described) in enumerate(spec.series.items()):
        ks = sorted({place.k for place in cells if (place.data, place.series) == (data, series)})
        for rank, k in enumerate(ks):
            means = [cell.mean for place, cell in sorted(cells.items())
                     if (place.data, place.series, place.k) == (data, series, k)]  # fmt: skip
            label = described.label + (f", k = {k}" if k else "")
            panel.plot(
                sorted(extent.epsilon),
                means,
                "o-",
                color=f"C{number}",
                alpha=(rank + 1) / len(ks),
                markersize=3,
                label=label,
            )
