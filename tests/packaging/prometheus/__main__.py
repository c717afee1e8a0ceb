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
_VARIABLE = re.compile(r"\$\{?\w+\}?")


def asked(url: str, path: str, **parameters: str) -> Any:
    """The data of an answer; one that is no success is an error of HTTP."""
    with urlopen(f"{url}/api/v1/{path}?{urlencode(parameters)}", timeout=20) as answer:
        return json.load(answer)["data"]


def watched(url: str) -> int:
    """Agents whose metrics it has."""
    try:
        found = asked(url, "query", query='sum(up{job="sottovoce"})')["result"]
    except OSError:
        return 0
    return int(found[0]["value"][1]) if found else 0


def plain(expression: str) -> str:
    """As Grafana would send it, for all devices."""
    return _VARIABLE.sub(lambda name: "1m" if name[0].strip("${}") == "__rate_interval" else ".*", expression)


def main(url: str, agents: int) -> int:
    """Print what has no answer; 1 if that is more than it may be."""
    until(lambda: watched(url) == agents, f"{agents} agents are watched", _PATIENCE)
    rules = [rule for group in asked(url, "rules")["groups"] for rule in group["rules"]]
    sick = [rule["name"] for rule in rules if rule["health"] == "err"]
    answers = {one: asked(url, "query", query=plain(one.text))["result"] for one in expressions()}
    shown = {panel["title"] for panel in panels()}
    empty = sorted({one.where for one, answer in answers.items() if not answer and one.where in shown})
    print(
        f"prometheus: {agents} agents, {len(rules)} rules, {len(answers)} questions; panels without an answer: {empty}"
    )
    return 0 if len(rules) == len(alerts()) and not sick and len(empty) < len(shown) / 2 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
