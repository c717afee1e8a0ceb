"""The page about a testbed run or a simulation."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from sottovoce_lab.pages.comparison import MEASURES, Row, compare, format_measure, main_measure
from sottovoce_lab.pages.html import (
    Markup,
    Page,
    budget,
    collapsible,
    facts,
    figure,
    heading,
    linked,
    paragraph,
    table,
    warnings,
)
from sottovoce_lab.pages.plots import Line, Plotter, Rule
from sottovoce_lab.pages.report_types import Metrics, RunReport

_MAX_ROWS = 100
_MIB = 2**20
_MEASURED = (
    "The harness measured accuracies and losses on models that the agents published, with records that no agent holds."
)
_DATA = {"digits": "handwritten digits", "breast-cancer": "measurements of breast tissue"}
"""Names of data sets in words; other names are shown as they are."""

Links = Mapping[str, tuple[str, str]]
"""The title and the address of each documentation page, by its path, such as `docs/tutorial.md`."""


def run_page(report: RunReport, plotter: Plotter, links: Links | None = None) -> str:
    """Return a report's page as HTML.

    Args:
        report: the report.
        plotter: draws the page's plots.
        links: the title and the address of each documentation page, by its path; None for no links.
    """
    rows, measure = compare(msgspec.to_builtins(report)), main_measure(report.final)
    page = Page(_title(report))
    page.add(paragraph(_result(report.final), "lead"), paragraph(_setting(report), "note"), warnings(report.warnings))
    page.add(
        *_learning(report, rows, measure, plotter),
        *_privacy(report, plotter, links or {}),
        *_resources(report),
        *_settings(report),
        *_agents(report),
    )
    if measure == "accuracy":
        page.add(paragraph(_MEASURED, "note"))
    return page.html()


def _title(report: RunReport) -> str:
    """Return what the run was, in words: who learned what from which records, under which budget."""
    run, epsilon = report.run, report.privacy.epsilon
    data = str(run.get("data", "records"))
    budget = "without noise" if epsilon is None else f"at ε = {epsilon:g}"
    return f"{run.get('agents', '?')} devices learn together from {_DATA.get(data, data)} {budget}"


def _setting(report: RunReport) -> str:
    """Return how the run took place, in one sentence."""
    run = report.run
    model = f" with the model {run['model']}" if run.get("model") else ""
    transport = f" over {run['transport']}" if run.get("transport") else ""
    duration = f", in {run['wall_s']:.0f} s" if isinstance(run.get("wall_s"), int | float) else ""
    return f"Learner {run.get('learner', 'unknown')}{model}, {run.get('cycles', '?')} cycles{transport}{duration}."


def _result(final: Metrics) -> str:
    name = main_measure(final)
    unit = f" {final['unit']}" if final.get("unit") else ""
    mean, low, high = (_result_number(final.get(f"{name}_{part}"), name) for part in ("mean", "min", "max"))
    if low and low == high:
        spread = " on every device"
    elif low:
        spread = f" on average, {low} to {high} over devices"
    else:
        spread = f" on average, {high}{unit} on the worst device" if high else ""
    return f"At the end: {MEASURES[name]} {mean}{unit}{spread}."


def _result_number(value: float | str | None, measure: str) -> str:
    return format_measure(value, measure) if isinstance(value, int | float) else value or ""


def _learning(report: RunReport, rows: Sequence[Row], measure: str, plotter: Plotter) -> list[Markup]:
    """Return the run's course, beside all that it is compared with, as a picture and a table."""
    course = _course(report, measure, rows, plotter)
    loss = _course(report, "loss", (), plotter) if measure != "loss" else []
    table_of_course = [collapsible("Show the course as a table", _curve(report.curve, measure))]
    if not course and not loss:
        table_of_course = [paragraph("Nothing was measured during the run.")]
    return [heading("Learning"), *course, *_comparison(report, rows, measure), *loss, *table_of_course]


def _course(report: RunReport, measure: str, rows: Sequence[Row], plotter: Plotter) -> list[Markup]:
    """Return a figure of a measure over cycles, with the comparison's other rows as reference lines."""
    points = [point for point in report.curve if _has_finite_values(point, f"{measure}_mean", "cycle")]
    if not points:
        return []
    values, band = _column(points, f"{measure}_mean"), _band(points, measure)
    rules = [Rule(_label(row, measure), row.value, row.half_interval) for row in rows if not row.is_run]
    run = next((_label(row, measure) for row in rows if row.is_run), "mean over devices")
    limits = {"bottom": 0.0, "top": 1.0} if measure == "accuracy" else {}
    caption = (
        f"{MEASURES[measure].capitalize()} over cycles, from {format_measure(values[0], measure)} to "
        f"{format_measure(values[-1], measure)}"
    )
    line = Line(run, _column(points, "cycle"), values, *band)
    drawing = plotter.lines(caption, "cycle", MEASURES[measure], [line], rules=rules, **limits)
    spread = f"; the band shows {band[2]}" if band[0] != band[1] else ""
    return [figure(drawing, f"{caption}{spread}.")]


def _label(row: Row, measure: str) -> str:
    return f"{format_measure(row.value, measure)} {row.label}"


def _comparison(report: RunReport, rows: Sequence[Row], measure: str) -> list[Markup]:
    """Return a table of the run with its baselines and with the simulations on the same data."""
    if len(rows) < 2:
        return []
    caption = "From the worst to the best"
    if report.comparisons:
        caption += (
            f"; rows with ± are simulations on the same data, means over {report.comparisons[0].seeds} seeds with 95 % "
            "intervals"
        )
    cells = []
    for row in rows:
        half = "" if row.half_interval is None else f"\u00a0±\u00a0{format_measure(row.half_interval, measure)}"
        cells.append([f"{format_measure(row.value, measure)}{half}", row.label, row.promise])
    marked = next(i for i, row in enumerate(rows) if row.is_run)
    columns = [MEASURES[measure], "by", "a record is protected against"]
    return [table(caption, columns, cells, numbers=(), marked=marked)]


def _band(points: list[Metrics], name: str) -> tuple[list[float], list[float], str]:
    """Return a band from the smallest to the largest value over agents, if both were measured."""
    if all(_has_finite_values(point, f"{name}_min", f"{name}_max") for point in points):
        return _column(points, f"{name}_min"), _column(points, f"{name}_max"), "all devices"
    return [], [], ""


def _curve(curve: list[Metrics], name: str) -> Markup:
    fields = [field for field in ("cycle", "t_s", f"{name}_mean", f"{name}_min", f"{name}_max", "loss_mean")
              if any(point.get(field) is not None for point in curve)]  # fmt: skip
    step = max(1, math.ceil(len(curve) / _MAX_ROWS))
    rows = curve[::step]
    caption = "Metrics during the run" if step == 1 else f"Metrics during the run, one row in {step}"
    return table(caption, fields, [[_number(point.get(field)) for field in fields] for point in rows])


def _privacy(report: RunReport, plotter: Plotter, links: Links) -> list[Markup]:
    privacy = report.privacy
    parts = [heading("Privacy")]
    spent = [agent.epsilon_spent for agent in report.agents if agent.epsilon_spent is not None]
    if privacy.epsilon is None:
        parts.append(paragraph(f"No ε is promised: {privacy.reason or 'there was no noise'}."))
    elif privacy.spent_epsilon_max is None:
        parts.append(
            paragraph(f"ε = {privacy.epsilon:g} is claimed; releases were charged as infinite: {privacy.reason}.")
        )
    else:
        parts.append(budget(privacy.spent_epsilon_max, privacy.epsilon))
    if privacy.epsilon is not None and len(spent) > 1:
        parts.append(_spending(sorted(spent), privacy.epsilon, plotter))
    parts.append(
        facts(
            "Privacy statement",
            [
                ("status", privacy.status),
                ("ε, δ", f"{_number(privacy.epsilon) or 'none'}, {_number(privacy.delta) or 'none'}"),
                ("unit", f"{privacy.unit}, {privacy.neighbouring}"),
                ("mechanism", privacy.mechanism),
                ("composition", privacy.composition),
                ("threat model", privacy.threat_model),
                ("why", linked(privacy.reason, links) if privacy.reason else ""),
                ("releases", f"{privacy.releases:,}"),
                (
                    "ledgers",
                    "all agree with their agents" if privacy.ledgers_agree else "NOT all agree with their agents",
                ),
            ],
        )
    )
    return parts


def _spending(spent: list[float], total: float, plotter: Plotter) -> Markup:
    """Plot each agent's spending, or state that all agents spent the same amount."""
    if spent[0] == spent[-1]:
        return paragraph("Every agent spent the same amount.")
    caption = f"Spent by each agent: ε from {spent[0]:.3g} to {spent[-1]:.3g} of {total:g}"
    sample = spent[:: max(1, math.ceil(len(spent) / _MAX_ROWS))]
    return figure(plotter.bars(caption, "agents, by ε spent", "ε spent", sample, limit=total), f"{caption}.")


def _resources(report: RunReport) -> list[Markup]:
    traffic, resources = report.traffic, report.resources
    memory = (
        ""
        if resources.rss_mib_median is None
        else f"{resources.rss_mib_median:.0f} MiB, {_number(resources.rss_mib_max)} at most"
    )
    return [
        heading("Resources"),
        facts(
            "Traffic and resources",
            [
                ("messages", f"{traffic.messages:,}"),
                (
                    "sent",
                    f"{traffic.wire_bytes / _MIB:,.2f} MiB, of which payload {traffic.payload_bytes / _MIB:,.2f} MiB",
                ),
                ("per agent per cycle", f"{traffic.wire_bytes_per_agent_cycle / 1024:,.2f} KiB"),
                ("memory per agent", memory),
                (
                    "processor time per agent",
                    "" if resources.cpu_s_per_agent is None else f"{resources.cpu_s_per_agent:.1f} s",
                ),
                ("ready after", "" if resources.ready_s_median is None else f"{resources.ready_s_median:.1f} s"),
            ],
        ),
    ]


def _settings(report: RunReport) -> list[Markup]:
    simple = [(name, _value(value)) for name, value in report.run.items() if not isinstance(value, dict | list)]
    return [heading("Run"), facts("Settings", [*simple, ("faults", ", ".join(report.faults))])]


def _agents(report: RunReport) -> list[Markup]:
    if not report.agents:
        return []
    agents = report.agents[:_MAX_ROWS]
    rows = [
        [
            agent.id,
            "yes" if agent.alive else "no",
            f"{agent.cycles}",
            f"{agent.peers}",
            "∞" if agent.epsilon_spent is None else _number(agent.epsilon_spent),
            f"{agent.releases}",
        ]
        for agent in agents
    ]
    alive = sum(agent.alive for agent in report.agents)
    caption = f"{alive} of {len(report.agents)} were running at the end"
    if len(agents) < len(report.agents):
        caption += f"; the first {len(agents)} are listed"
    listed = table(caption, ["id", "alive", "cycles", "peers", "ε spent", "releases"], rows)
    return [heading("Agents"), collapsible(caption, listed)]


def _has_finite_values(point: Metrics, *fields: str) -> bool:
    return all(isinstance(value := point.get(field), int | float) and math.isfinite(value) for field in fields)


def _column(points: Sequence[Metrics], field: str) -> list[float]:
    return [float(value) for point in points if isinstance(value := point.get(field), int | float)]


def _number(value: float | str | None) -> str:
    """Format a number as an integer or with three significant digits, keeping text unchanged and mapping None to ""."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def _value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)
