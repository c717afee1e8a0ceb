"""A result as one HTML page that needs no other file: pictures with bands, tables, and what the numbers promise."""

import math
from collections.abc import Callable, Iterator, Mapping
from html import escape

import numpy as np

from sottovoce_operator.estimate import Estimate, Floats
from sottovoce_operator.results.source import Result
from sottovoce_operator.results.tables import describe, promise

_BAND = 1.2815515655446004
"""The band reaches from P10 to P90 of a normal distribution."""

_STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1d2329; --soft: #5d6873; --line: #d9dee3; --value: #0b63a5;
  --prior: #b25a00; --box: #f4f6f8; --warn: #fff3d6; }
@media (prefers-color-scheme: dark) { :root { --page: #14181c; --ink: #e8ecef; --soft: #9aa5b0; --line: #323a42;
  --value: #5cb2f2; --prior: #f0a04b; --box: #1d2329; --warn: #3a2f14; } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.5rem; background: var(--box);
  padding: 1rem; border-radius: .5rem; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--line); } .value { stroke: var(--value); stroke-width: 2; fill: none; }
.band { fill: var(--value); opacity: .2; } .dot { fill: var(--value); } .bar { stroke: var(--value); stroke-width: 2; }
.prior { stroke: var(--prior); stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }
.truth { stroke: var(--ink); stroke-width: 1.5; fill: none; }
.key { color: var(--soft); } .key b { color: var(--value); } .key i { color: var(--prior); font-style: normal; }
.warn { background: var(--warn); padding: .75rem 1rem; border-radius: .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
"""


def result_page(result: Result, products: list[Estimate], extra: Mapping[str, str] | None = None) -> str:
    """Return the page, HTML.

    Args:
        result: the result.
        products: its products.
        extra: further facts for the head of the page, by name.
    """
    facts = describe(result)
    days = "" if facts["first_day"] is None else f"{facts['first_day']} to {facts['last_day']}"
    checked = "valid" if result.reason is None else result.reason
    rows = {
        "fleet": facts["fleet"],
        "task": facts["task"] or "",
        "epoch, sum": f"{facts['epoch']}, {facts['sum']}",
        "homes": f"{facts['members']} in the sum, {facts['roster']} in the roster",
        "days": days,
        "privacy": promise(facts),
        "signatures": f"{facts['signatures']}, of which {facts['signatures_required']} are required: {checked}",
        "task digest": facts["task_digest"],
        **(extra or {}),
    }
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(text))}</dd>" for name, text in rows.items() if text)
    title = f"Results of fleet {facts['fleet']}"
    parts = "".join(part for product in products for part in _product_parts(product))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><dl>{listed}</dl>{parts}</body></html>"
    )


def _product_parts(product: Estimate) -> Iterator[str]:
    unit = f", in {escape(product.unit)}" if product.unit else ""
    yield f"<h2>{escape(product.title)}{unit}</h2>"
    for warning in product.warnings:
        yield f'<p class="warn">{escape(warning)}</p>'
    is_profile = product.per_row is not None and len(product.values) % product.per_row == 0
    prior = "" if product.prior is None else ", <i>– – the public prior</i>"
    spread = "P10 to P90" if is_profile else "± one standard error"
    truth = "" if product.truth is None else ", — the truth, which only this rehearsal knows"
    sources = escape(", ".join(product.error_sources))
    yield f'<p class="key"><b>— value</b> with {spread} of the {sources}{prior}{truth}</p>'
    yield _profile_panels(product) if is_profile else _dots(product)
    for remark in product.remarks:
        yield f"<p>{escape(remark)}</p>"
    yield f"<details><summary>All values</summary>{_table(product)}</details>"


def _profile_panels(product: Estimate) -> str:
    """Return one panel per row of the profile, all with the same scale."""
    size = product.per_row or len(product.values)
    low, high = _scale(product, _BAND)
    count = len(product.values) // size
    panels = []
    for row in range(count):
        part = slice(row * size, (row + 1) * size)
        caption = "" if count == 1 else f"<figcaption>{escape(_row_title(product, row, size))}</figcaption>"
        others = {"prior": product.prior, "truth": product.truth}
        lines = {name: line[part] for name, line in others.items() if line is not None}
        drawing = _profile(product.values[part], product.errors[part], lines, (low, high), wide=count == 1)
        panels.append(f"<figure>{caption}{drawing}</figure>")
    return panels[0] if count == 1 else f'<div class="panels">{"".join(panels)}</div>'


def _row_title(product: Estimate, row: int, size: int) -> str:
    """Return what the labels of a row have in common, without the time of day."""
    return product.labels[row * size].rpartition(" ")[0] or str(row + 1)


def _profile(
    values: Floats, errors: Floats, lines: Mapping[str, Floats], scale: tuple[float, float], *, wide: bool
) -> str:
    width, height = (760, 300) if wide else (260, 170)
    left, right, top, bottom = 52, 22, 10, 22

    def x(i: float) -> float:
        return left + (width - left - right) * i / len(values)

    def y(value: float) -> float:
        return top + (height - top - bottom) * (scale[1] - value) / (scale[1] - scale[0])

    centres = [x(i + 0.5) for i in range(len(values))]
    upper = [f"{cx:.1f},{y(v):.1f}" for cx, v in zip(centres, values + _BAND * errors, strict=True)]
    lower = [f"{cx:.1f},{y(v):.1f}" for cx, v in zip(centres, values - _BAND * errors, strict=True)]
    shapes = [_grid(scale, y, (left, width - right))]
    shapes.extend(
        f'<text x="{x(len(values) * hour / 24):.1f}" y="{height - 6}" text-anchor="middle">{hour:02d}:00</text>'
        for hour in range(0, 25, 6)
    )
    shapes.append(f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>')
    for name, line in {**lines, "value": values}.items():
        points = " ".join(f"{cx:.1f},{y(v):.1f}" for cx, v in zip(centres, line, strict=True))
        shapes.append(f'<polyline class="{name}" points="{points}"/>')
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="profile of a day">{"".join(shapes)}</svg>'


def _dots(product: Estimate) -> str:
    """Return one line per value, with its error and the prior."""
    shown = min(len(product.values), 60)
    values, errors = product.values[:shown], product.errors[:shown]
    low, high = _scale(product, 1.0)
    width, left, right, row, top = 760, 190, 14, 24, 8
    height = top + row * shown + 24

    def x(value: float) -> float:
        return left + (width - left - right) * (value - low) / (high - low)

    shapes = []
    for tick in _ticks(low, high):
        shapes.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{height - 20}"/>')
        shapes.append(f'<text x="{x(tick):.1f}" y="{height - 6}" text-anchor="middle">{tick:g}</text>')
    for i in range(shown):
        y = top + row * (i + 0.5)
        shapes.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(product.labels[i][:28])}</text>')
        shapes.append(
            f'<line class="bar" x1="{x(values[i] - errors[i]):.1f}" x2="{x(values[i] + errors[i]):.1f}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/><circle class="dot" cx="{x(values[i]):.1f}" cy="{y:.1f}" r="4"/>'
        )
        for name, line in (("prior", product.prior), ("truth", product.truth)):
            if line is not None:
                at = x(line[i])
                shapes.append(f'<line class="{name}" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}"/>')
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="values with errors">{"".join(shapes)}</svg>'


def _grid(scale: tuple[float, float], y: Callable[[float], float], span: tuple[float, float]) -> str:
    return "".join(
        f'<line class="grid" x1="{span[0]}" x2="{span[1]}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text x="{span[0] - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in _ticks(*scale)
    )


def _scale(product: Estimate, spread: float) -> tuple[float, float]:
    """Return the lowest and the highest value to draw; 0 is always in the picture."""
    ends = [product.values - spread * product.errors, product.values + spread * product.errors]
    ends += [line for line in (product.prior, product.truth) if line is not None]
    low, high = min(0.0, float(np.min(ends))), max(0.0, float(np.max(ends)))
    return (low, high) if high > low else (0.0, 1.0)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two values, about five of them."""
    raw = (high - low) / 5
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw)
    return [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _table(product: Estimate) -> str:
    head = "<th>of</th><th>value</th><th>± error</th>" + ("" if product.prior is None else "<th>prior</th>")
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{product.values[i]:.5g}</td><td>{product.errors[i]:.3g}</td>"
        + ("" if product.prior is None else f"<td>{product.prior[i]:.5g}</td>")
        + "</tr>"
        for i, label in enumerate(product.labels)
    )
    return f"<table><tr>{head}</tr>{rows}</table>"
