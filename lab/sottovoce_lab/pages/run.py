"""The page about a testbed run or a simulation."""

import math
from collections.abc import Sequence

from sottovoce_lab.pages.html import (
    Markup,
    Page,
    budget,
    collapsible,
    facts,
    figure,
    heading,
    paragraph,
    table,
    warnings,
)
from sottovoce_lab.pages.plots import Line, Plotter
from sottovoce_lab.pages.report_types import Baselines, Metrics, RunReport

_MAX_ROWS = 100
_MIB = 2**20
_MEASURED = (
    "The harness measured accuracies and losses on models that the agents published, with records that no agent holds."
)
_MEASURES = ("accuracy", "mae", "rmse")
_WORDS = {"accuracy": "accuracy", "mae": "mean absolute error", "rmse": "root mean squared error", "loss": "loss"}


def run_page(report: RunReport, plotter: Plotter) -> str:
    """Return a report's page as HTML."""
    run = report.run
    page = Page(f"{run.get('learner', 'A run')} on {run.get('data', 'some data')}, {run.get('agents', '?')} agents")
    page.add(paragraph(_result(report.final), "lead"), *_comparisons(report), warnings(report.warnings))
    page.add(
        *_learning(report, plotter),
        *_privacy(report, plotter),
        *_resources(report),
        *_settings(report),
        *_agents(report),
    )
    if _measure(report.final) == "accuracy":
        page.add(paragraph(_MEASURED, "note"))
    return page.html()


def baseline_rules(baselines: Baselines | None) -> list[tuple[str, float]]:
    """Return the accuracies of trivial rules as reference lines for a plot."""
    if baselines is None:
        return []
    return [("own data alone", baselines.own_data), ("most common class", baselines.majority_class)]


def _measure(measures: Metrics) -> str:
    """Return a run's main measure: the first one that has a mean, or `loss` if none has."""
    return next((name for name in _MEASURES if measures.get(f"{name}_mean") is not None), "loss")


def _result(final: Metrics) -> str:
    name = _measure(final)
    unit = f" {final['unit']}" if final.get("unit") else ""
    mean = _number(final.get(f"{name}_mean"))
    low, high = _number(final.get(f"{name}_min")), _number(final.get(f"{name}_max"))
    spread = f", from {low} to {high} over agents" if low else f", {high}{unit} for the worst agent" if high else ""
    return f"At the end: {_WORDS[name]} {mean}{unit}{spread}."


def _comparisons(report: RunReport) -> list[Markup]:
    """Describe the baselines, and the simulations with the same data."""
    baselines, comparisons = report.baselines, report.comparisons
    rows = [
        (
            comparison.label,
            f"{comparison.accuracy_mean:.3f} ± {comparison.half_interval:.3f}. Protected against: {comparison.promise}",
        )
        for comparison in comparisons
    ]
    simulated = (
        [facts(f"Simulations with the same data: means over {comparisons[0].seeds} seeds", rows)] if comparisons else []
    )
    if baselines is None:
        return simulated
    summary = (
        f"A device alone, with its own records and no noise, reaches {baselines.own_data:.3f}; always predicting the "
        f"most common class reaches {baselines.majority_class:.3f}."
    )
    return [paragraph(summary), *simulated]


def _learning(report: RunReport, plotter: Plotter) -> list[Markup]:
    parts = [heading("Learning")]
    name = _measure(report.final)
    for measure in dict.fromkeys((name, "loss")):
        points = [point for point in report.curve if _has_finite_values(point, f"{measure}_mean", "cycle")]
        if not points:
            continue
        line = Line(
            "mean over agents", _column(points, "cycle"), _column(points, f"{measure}_mean"), *_band(points, measure)
        )  # fmt: skip
        limits = {"bottom": 0.0, "top": 1.0} if measure == "accuracy" else {}
        reference_lines = baseline_rules(report.baselines) if measure == "accuracy" else []
        caption = f"{_WORDS[measure]} over cycles, from {line.y[0]:.3g} to {line.y[-1]:.3g}"
        parts.append(
            figure(
                plotter.lines(caption, "cycle", _WORDS[measure], [line], rules=reference_lines, **limits),
                f"{caption.capitalize()}.",
            )
        )
    if len(parts) == 1:
        return [*parts, paragraph("Nothing was measured during the run.")]
    return [*parts, collapsible("Show as a table", _curve(report.curve, name))]


def _band(points: list[Metrics], name: str) -> tuple[list[float], list[float], str]:
    """Return a band from the smallest to the largest value over agents, if both were measured."""
    if all(_has_finite_values(point, f"{name}_min", f"{name}_max") for point in points):
        return _column(points, f"{name}_min"), _column(points, f"{name}_max"), "all agents"
    return [], [], ""


def _curve(curve: list[Metrics], name: str) -> Markup:
    fields = [field for field in ("cycle", "t_s", f"{name}_mean", f"{name}_min", f"{name}_max", "loss_mean")
              if any(point.get(field) is not None for point in curve)]  # fmt: skip
    step = max(1, math.ceil(len(curve) / _MAX_ROWS))
    rows = curve[::step]
    caption = "Metrics during the run" if step == 1 else f"Metrics during the run, one row in {step}"
    return table(caption, fields, [[_number(point.get(field)) for field in fields] for point in rows])


def _privacy(report: RunReport, plotter: Plotter) -> list[Markup]:
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
                ("why", privacy.reason),
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
    """Format a number as an integer or with four significant digits, keeping text unchanged and mapping None to ""."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
