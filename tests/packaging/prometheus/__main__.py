"""Asks a Prometheus that watches a fleet every question of every alert and panel.

python -m tests.packaging.prometheus URL AGENTS
"""

import json
import re
import sys
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.support.monitoring import alerts, expressions, panels
from tests.support.waiting import until

_PATIENCE = 180.0
_OWN_MACHINE = ("sottovoce_process_", "sottovoce_state_free_")
_VARIABLE = re.compile(r"\$\{?\w+\}?")


def asked(url: str, path: str, **parameters: str) -> Any:
    """Ask Prometheus, and return the data of its answer; a failure is an HTTP error."""
    with urlopen(f"{url}/api/v1/{path}?{urlencode(parameters)}", timeout=20) as answer:
        return json.load(answer)["data"]


def watched(url: str) -> int:
    """The number of agents whose metrics Prometheus has."""
    try:
        found = asked(url, "query", query='sum(up{job="sottovoce"})')["result"]
    except OSError:
        return 0
    return int(found[0]["value"][1]) if found else 0


def plain(expression: str) -> str:
    """The expression as Grafana would send it for all devices."""
    return _VARIABLE.sub(lambda name: "1m" if name[0].strip("${}") == "__rate_interval" else ".*", expression)


def unanswered(url: str) -> list[str]:
    """Panels without data, except those for metrics that agents show only to their own machine."""
    shown = {panel["title"] for panel in panels()}
    return [
        one.where
        for one in expressions()
        if one.where in shown
        and not any(selector.metric.startswith(_OWN_MACHINE) for selector in one.selectors)
        and not asked(url, "query", query=plain(one.text))["result"]
    ]


def main(url: str, agents: int) -> None:
    """Ask until every expression is answered."""
    until(lambda: watched(url) == agents, f"{agents} agents are watched", _PATIENCE)
    rules = [rule for group in asked(url, "rules")["groups"] for rule in group["rules"]]
    if len(rules) != len(alerts()):
        raise SystemExit(f"{len(rules)} rules, not {len(alerts())}")
    for alert in alerts():
        asked(url, "query", query=alert["expr"])
    until(lambda: not unanswered(url), f"no panel is empty, but {unanswered(url)}", _PATIENCE)
    print(f"prometheus: {agents} agents, {len(rules)} rules, {len(expressions())} questions, none without an answer")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
