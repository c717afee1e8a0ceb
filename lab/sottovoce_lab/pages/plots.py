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

_INCHES = (4.8, 3.0)
_BLUE, _ORANGE, _GREY = "#0b5fa5", "#b35900", "#5b6570"
_BRIGHT, _FAINT = "#2f81f7", "#8b949e55"  # for both light and dark backgrounds
_COLOURS = (_BLUE, _ORANGE, "#1a7f4b", "#8a3ba8", "#a61c3c", "#3d4650")
"""Colours that colour-blind readers can distinguish and that are dark enough on white."""
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "sottovoce",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
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


def _stand_alone_svg(drawing: Any, title: str) -> str:
    """Return a drawing as a stand-alone, transparent SVG file whose colours follow the reader's theme."""
    buffer = io.StringIO()
    drawing.savefig(buffer, format="svg", metadata=_OMITTED_METADATA, transparent=True)
    svg = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue()[buffer.getvalue().index("<svg") :], flags=re.DOTALL)
    for ink in ("#000000", "#262626", _GREY):
        svg = svg.replace(ink, "currentColor")
    svg = svg.replace("#ffffff", "none").replace("#cccccc", _FAINT).replace("#e3e7eb", _FAINT).replace(_BLUE, _BRIGHT)
    opening = re.match(r"<svg[^>]*>", svg)
    end = opening.end() if opening else 0
    style = (
        "<style>svg{color:#1b1f24;font-family:sans-serif}text{fill:currentColor}"
        "@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
    )
    return f"{svg[:end]}<title>{escape(title)}</title>{style}{svg[end:]}"


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
        rules: Sequence[tuple[str, float]] = (), bottom: float | None = None, top: float | None = None,
    ) -> Markup:  # fmt: skip
        """Draw several curves in one plot.

        Args:
            title: a description of the plot, for readers who cannot see it.
            x_label: the label for the x axis.
            y_label: the label for the y axis.
            lines: the curves, at least one.
            limit: the value to draw as a dashed line; None for no line.
            rules: the names and values of up to two reference lines, drawn dotted and dash-dotted.
            bottom: the lower limit of the y axis; None to fit the curves.
            top: the upper limit of the y axis; None to fit the curves.
        """
        with self._plt.rc_context(_SETTINGS):
            drawing, axes = self._plt.subplots(figsize=_INCHES, layout="constrained")
            for line, colour in zip(lines, cycle(_COLOURS), strict=False):
                style = "o-" if len(line.x) < 10 else "-"
                axes.plot(line.x, line.y, style, color=colour, linewidth=1.8, markersize=4, label=line.label)
                if line.low:
                    axes.fill_between(
                        line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0, label=line.band
                    )
            if limit is not None:
                axes.axhline(limit, color=_GREY, linestyle="--", linewidth=1.2, label="budget")
            for (name, value), style in zip(rules, (":", "-."), strict=False):
                axes.axhline(value, color=_GREY, linestyle=style, linewidth=1.4, label=name)
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.set_ylim(bottom=bottom, top=top)
            if all(number == int(number) for line in lines for number in line.x):
                axes.locator_params(axis="x", integer=True)
            if rules or len(lines) > 1 or limit is not None or any(line.low for line in lines):
                axes.legend(fontsize="small", loc="best")
            if x_label == "cycle" and not self._over_cycles:
                self._over_cycles = _stand_alone_svg(drawing, title)
            return self._svg(drawing, title)

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
            axes.bar(range(len(values)), values, color=_BLUE, width=0.8)
            if limit is not None:
                axes.axhline(limit, color=_GREY, linestyle="--", linewidth=1.2, label="budget")
                axes.legend(fontsize="small", loc="lower right")
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.locator_params(axis="x", integer=True)
            return self._svg(drawing, title)

    def _svg(self, drawing: Any, title: str) -> Markup:
        """Return the drawing without a file header, and with ids that no other drawing uses."""
        buffer = io.StringIO()
        drawing.savefig(buffer, format="svg", metadata=_OMITTED_METADATA)
        self._plt.close(drawing)
        self._drawing_count += 1
        prefix = f"plot{self._drawing_count}-"
        svg = buffer.getvalue()
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
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
