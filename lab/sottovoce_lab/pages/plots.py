"""Plots that matplotlib draws as SVG for embedding in a page. Text stays text, and ids are unique within the page."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle
from typing import Any

from sottovoce.errors import DataError

from sottovoce_lab.pages.html import Markup

_INCHES = (6.2, 3.4)
_GREY, _FAINT = "#5b6570", "#8b949e55"
COLOURS = ("#2f81f7", "#c2690a", "#2b9348", "#a371f7", "#e5484d", "#7d8590")
"""Colours of curves: a contrast of at least 3 to 1 both on white and on the page's dark background."""
_LABEL_SIZE = 8.5
_LINE_HEIGHT = 1.3
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "sottovoce",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "grid.color": "#e3e7eb",
}
_OMITTED_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True, slots=True)
class Line:
    """A curve in a plot.

    Attributes:
        label: the curve's label.
        x: the points' x values, in order.
        y: the points' y values.
        low: the lower edge of a band around the curve; empty if there is no band.
        high: the upper edge of the band; empty if there is no band.
        band: what the band means.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    band: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal reference line with its label.

    Attributes:
        label: the line's label.
        value: the line's y value.
        half_interval: half the width of a band around the line; None for no band.
    """

    label: str
    value: float
    half_interval: float | None = None


def _draw(drawing: Any) -> str:
    """Return a drawing as transparent SVG, whose text, axes and reference lines have the colour of the page's text."""
    buffer = io.StringIO()
    drawing.savefig(buffer, format="svg", metadata=_OMITTED_METADATA, transparent=True)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    for ink in ("#000000", "#262626", _GREY):
        svg = svg.replace(ink, "currentColor")
    svg = svg.replace("#ffffff", "none").replace("#e3e7eb", _FAINT)
    return re.sub(r"(<text\b(?![^>]*fill:)[^>]*style=\")", r"\1fill: currentColor; ", svg)


def _stand_alone_svg(svg: str, title: str) -> str:
    """Return a drawing as a file of its own, whose colours follow the reader's light or dark theme."""
    opening = re.match(r"<svg[^>]*>", svg)
    end = opening.end() if opening else 0
    style = (
        "<style>svg{color:#1b1f24;font-family:sans-serif}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
    )
    return f"{svg[:end]}<title>{escape(title)}</title>{style}{svg[end:]}"


def spread(positions: Sequence[float], gap: float, top: float) -> list[float]:
    """Move ascending positions apart until they are at least a gap from one another, and none lies above the top."""
    moved: list[float] = []
    for position in positions:
        moved.append(max(position, moved[-1] + gap) if moved else position)
    for i in range(len(moved) - 1, -1, -1):
        moved[i] = min(moved[i], moved[i + 1] - gap if i + 1 < len(moved) else top)
    return moved


def _label_lines(axes: Any, labels: Sequence[tuple[str, float, str, str]]) -> None:
    """Write labels at the right edge, each at the height of its line or near it.

    Args:
        axes: matplotlib axes with all lines.
        labels: for each line its text, y value, colour and font weight.
    """
    bottom, top = axes.get_ylim()
    labels = sorted(labels, key=lambda label: label[1])
    gap = _LABEL_SIZE * _LINE_HEIGHT / (_INCHES[1] * 72 * 0.85)  # axes fill about 85 % of the height
    heights = spread([(value - bottom) / (top - bottom) for _, value, _, _ in labels], gap, 1.0)
    for (text, _, colour, weight), height in zip(labels, heights, strict=True):
        axes.text(
            1.015, height, text, transform=axes.transAxes, va="center", fontsize=_LABEL_SIZE, color=colour,
            fontweight=weight,
        )  # fmt: skip


class Plotter:
    """Draws plots as SVG.

    Args:
        pyplot: matplotlib's pyplot module, configured to draw into files.
    """

    def __init__(self, pyplot: Any) -> None:
        self._plt = pyplot
        self._drawing_count = 0
        self._over_cycles = ""

    def lines(
        self, title: str, x_label: str, y_label: str, lines: Sequence[Line], *, limit: float | None = None,
        rules: Sequence[Rule] = (), bottom: float | None = None, top: float | None = None,
    ) -> Markup:  # fmt: skip
        """Draw several curves in one plot.

        Args:
            title: a description of the plot, for readers who cannot see it.
            x_label: the label for the x axis.
            y_label: the label for the y axis.
            lines: the curves, at least one.
            limit: the value to draw as a dashed line; None for no line.
            rules: reference lines, drawn dotted and labelled at the right edge, as is then a single curve.
            bottom: the lower limit of the y axis; None to fit the curves.
            top: the upper limit of the y axis; None to fit the curves.
        """
        with self._plt.rc_context(_SETTINGS):
            drawing, axes = self._plt.subplots(figsize=_INCHES, layout="constrained")
            for line, colour in zip(lines, cycle(COLOURS), strict=False):
                style = "o-" if len(line.x) < 10 else "-"
                axes.plot(line.x, line.y, style, color=colour, linewidth=1.8, markersize=4, label=line.label)
                if line.low and line.low != line.high:
                    axes.fill_between(
                        line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0, label=line.band
                    )
            if limit is not None:
                axes.axhline(limit, color=_GREY, linestyle="--", linewidth=1.2, label="budget")
            for rule in rules:
                axes.axhline(rule.value, color=_GREY, linestyle=":", linewidth=1.4)
                if rule.half_interval:
                    low, high = rule.value - rule.half_interval, rule.value + rule.half_interval
                    axes.axhspan(low, high, color=_GREY, alpha=0.08, linewidth=0)
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.set_ylim(bottom=bottom, top=top)
            if all(number == int(number) for line in lines for number in line.x):
                axes.locator_params(axis="x", integer=True)
            if rules:
                labels = [(rule.label, rule.value, _GREY, "normal") for rule in rules]
                if len(lines) == 1:
                    labels.append((lines[0].label, lines[0].y[-1], COLOURS[0], "bold"))
                _label_lines(axes, labels)
            if len(lines) > 1 or limit is not None or (not rules and any(line.low for line in lines)):
                drawing.legend(fontsize="small", loc="outside lower center", ncols=2)  # below, where it hides no line
            return self._finish(drawing, title, over_cycles=x_label == "cycle")

    def picture(self) -> str:
        """Return the first plot over cycles, as an SVG file whose colours follow the reader's light or dark theme.

        Raises:
            DataError: if no plot over cycles was drawn.
        """
        if not self._over_cycles:
            raise DataError("the report has no curve over cycles, so there is nothing to draw")
        return self._over_cycles

    def bars(self, title: str, x_label: str, y_label: str, values: Sequence[float], *, limit: float | None) -> Markup:
        """Draw one bar per value, in order, and the limit, if any, as a dashed line."""
        with self._plt.rc_context(_SETTINGS):
            drawing, axes = self._plt.subplots(figsize=_INCHES, layout="constrained")
            axes.bar(range(len(values)), values, color=COLOURS[0], width=0.8)
            if limit is not None:
                axes.axhline(limit, color=_GREY, linestyle="--", linewidth=1.2, label="budget")
                axes.legend(fontsize="small", loc="lower right")
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.locator_params(axis="x", integer=True)
            return self._finish(drawing, title)

    def _finish(self, drawing: Any, title: str, *, over_cycles: bool = False) -> Markup:
        """Return the drawing without a file header, and with ids that no other drawing uses."""
        svg = _draw(drawing)
        self._plt.close(drawing)
        if over_cycles and not self._over_cycles:
            self._over_cycles = _stand_alone_svg(svg, title)
        self._drawing_count += 1
        prefix = f"plot{self._drawing_count}-"
        svg = re.sub(r'\bid="', f'id="{prefix}', svg)
        svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
        svg = re.sub(r'href="#', f'href="#{prefix}', svg)
        (opening,) = re.findall(r"\A<svg[^>]*>", svg)
        box = re.search(r'viewBox="[^"]*"', opening)
        head = (
            f'<svg {box[0] if box else ""} role="img" aria-labelledby="{prefix}title" '
            'xmlns:xlink="http://www.w3.org/1999/xlink">'
            f'<title id="{prefix}title">{escape(title)}</title>'
        )
        return Markup(head + svg[len(opening) :])
