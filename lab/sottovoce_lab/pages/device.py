"""The page about a device: its complete history from the ledger, and its current state."""

import math
from dataclasses import dataclass
from typing import Any

from sottovoce.privacy.accounting.gaussian import format_rounded_up

from sottovoce_lab.pages.html import Page, budget, collapsible, facts, figure, heading, paragraph, table
from sottovoce_lab.pages.plots import Line, Plotter


@dataclass(frozen=True, slots=True)
class History:
    """All charges in a device's ledger, from first to last. A ledger records their order but no times.

    Attributes:
        name: the name of the device's state directory.
        owner: the device's node id.
        unit: the budget's privacy unit.
        neighbouring: the budget's neighbouring relation.
        epsilon: the budget's ε; None if no ε is promised.
        delta: the budget's δ.
        charges: the number of charges.
        releases: the number of releases.
        points: each charge's number with the ε spent after it; ε is infinite after a noise-free release.
        status: the status of the device's agent; None if no agent answers.
    """

    name: str
    owner: str
    unit: str
    neighbouring: str
    epsilon: float | None
    delta: float
    charges: int
    releases: int
    points: tuple[tuple[int, float], ...]
    status: dict[str, Any] | None


def device_page(history: History, plotter: Plotter) -> str:
    """Return a device's page as HTML."""
    page = Page(f"Device {history.name}")
    page.add(
        paragraph(f"{history.owner}: {history.charges:,} charges, {history.releases:,} releases.", "lead"),
        heading("Budget"),
    )
    finite = [(number, spent) for number, spent in history.points if math.isfinite(spent)]
    spent = history.points[-1][1]
    if history.epsilon is None or not math.isfinite(spent):
        page.add(
            paragraph("No ε is promised: the budget has no ε, or the ledger has paid for a release without a proved ε.")
        )
    else:
        page.add(budget(spent, history.epsilon))
    if len(finite) > 1:
        numbers, epsilons = [number for number, _ in finite], [epsilon for _, epsilon in finite]
        caption = f"After {numbers[-1]:,} charges: ε = {format_rounded_up(epsilons[-1])}"
        lines = [Line("charged", numbers, epsilons)]
        if history.epsilon is not None:
            caption += f" of {history.epsilon:g}"
            lines.append(Line("left", numbers, [max(0.0, history.epsilon - epsilon) for epsilon in epsilons]))
        drawing = plotter.lines(caption, "charge", "ε", lines, limit=history.epsilon, bottom=0.0)
        page.add(figure(drawing, f"{caption}. A ledger records the order of charges but no times."))
        rows = [[f"{number}", f"{epsilon:.4f}"] for number, epsilon in finite]
        page.add(collapsible("Show as a table", table("Charges", ["charge", "ε charged"], rows)))
    page.add(
        facts(
            "Budget in the ledger",
            [
                ("ε, δ", f"{'none' if history.epsilon is None else f'{history.epsilon:g}'}, {history.delta:g}"),
                ("unit", f"{history.unit}, {history.neighbouring}"),
                ("device", history.owner),
            ],
        )
    )
    _add_current_state(page, history.status)
    return page.html()


def _add_current_state(page: Page, status: dict[str, Any] | None) -> None:
    """Add the agent's current state to the page."""
    page.add(heading("Current state"))
    if status is None:
        page.add(
            paragraph("No agent is running, so message counts are unknown: an agent counts messages from its start.")
        )
        return
    traffic, failing = status["traffic"], sum(bool(peer["failures_in_a_row"]) for peer in status["peers"])
    planned = "" if status["steps"] is None else f" of {status['steps']}"
    page.add(
        facts(
            "The agent since it was started",
            [
                ("state", status["state"]),
                ("learner", status["learner"]),
                ("fleet", status["fleet"]),
                ("cycle", f"{status['cycle']}, private step {status['steps_done']}{planned}"),
                ("promise", f"{status['privacy']['status']}: {status['privacy']['mechanism']}"),
                ("peers", f"{len(status['peers'])}, {failing} of which cannot be reached"),
                (
                    "messages",
                    f"{traffic['messages']:,} sent, {traffic['retries']:,} retries, {traffic['received']:,} received",
                ),
                ("sent", f"{traffic['wire_bytes'] / 2**20:,.2f} MiB"),
                ("memory", f"{status['resources']['rss_mib']:.0f} MiB"),
                ("certificate", f"valid until {status['certificate_expires']}"),
                ("waiting for", "; ".join(wait["reason"] for wait in status["waiting"])),
            ],
        )
    )
