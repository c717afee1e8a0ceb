"""Prometheus queries in deploy/: expressions of alerts and panels, and the names in them; and pages of an agent."""

import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.sources import ROOT
from tests.support.waiting import TIMEOUT

PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARDS = ROOT / "deploy/grafana/dashboards"
TARGET_LABELS = {"instance", "job"}
"""Labels that Prometheus adds to every series of a target."""

_SELECTOR = re.compile(r"\b(sottovoce_\w+|up|ALERTS)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Selector:
    """One selector in an expression.

    Attributes:
        metric: name of the metric.
        matchers: label matchers: name, operator, value.
    """

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """Expression and its place.

    Attributes:
        where: alert or panel of the expression.
        text: the expression in PromQL.
        shown: labels named in the summaries and legends.
    """

    where: str
    text: str
    shown: frozenset[str]

    @property
    def selectors(self) -> list[Selector]:
        """All selectors of the expression."""
        return [Selector(match[1], tuple(_MATCHER.findall(match[2] or ""))) for match in _SELECTOR.finditer(self.text)]

    @property
    def grouped(self) -> set[str]:
        """The labels in the expression's `by` and `without` clauses."""
        return {label.strip() for match in _GROUPING.finditer(self.text) for label in match[1].split(",")}


def alerts() -> list[dict[str, Any]]:
    """Read the rules of alerts.yml."""
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Read the panels of all dashboards, rows included."""
    results = []
    for file in sorted(DASHBOARDS.glob("*.json")):
        results += json.loads(file.read_text(encoding="utf-8"))["panels"]
    return results


def expressions() -> list[Expression]:
    """Return the expressions of all alerts and panels."""
    of_alerts = [
        Expression(
            rule["alert"],
            rule["expr"],
            frozenset(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))),
        )
        for rule in alerts()
    ]
    of_panels = [
        Expression(panel["title"], target["expr"], frozenset(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))
        for panel in panels()
        for target in panel.get("targets", ())
    ]
    return of_alerts + of_panels


def get(port: int, path: str) -> tuple[int, str]:
    """Get a page, and return its status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
