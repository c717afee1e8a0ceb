"""Alerts and dashboards in isolation; a test with a real agent checks that it exports the metrics that they name."""

import re
import shutil
import subprocess

import pytest

from tests.support.monitoring import PROMETHEUS, alerts, expressions, panels
from tests.support.sources import ROOT


def test_every_alert_states_the_problem_and_the_remedy() -> None:
    assert len(alerts()) > 10
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "remedy"}, rule["alert"]
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"], rule["alert"]
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}, rule["alert"]


def test_the_guide_lists_exactly_the_alerts() -> None:
    guide = (ROOT / "docs/how-to/observe.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Sottovoce\w+)` \|", guide, re.MULTILINE) == [rule["alert"] for rule in alerts()]


def test_a_remedy_s_references_exist() -> None:
    for rule in alerts():
        for page in re.findall(r"docs/[\w/-]+\.md", rule["annotations"]["remedy"]):
            assert (ROOT / page).exists(), f"{rule['alert']}: {page}"


def test_every_panel_has_a_description_and_a_separate_place() -> None:
    taken: dict[tuple[int, int], str] = {}
    assert len({panel["id"] for panel in panels()}) == len(panels())
    for panel in panels():
        assert panel["type"] == "row" or (panel["description"] and panel["targets"]), panel["title"]
        position = panel["gridPos"]
        assert position["x"] + position["w"] <= 24, panel["title"]
        for x in range(position["x"], position["x"] + position["w"]):
            for y in range(position["y"], position["y"] + position["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


def test_every_expression_has_a_metric() -> None:
    assert [expression.where for expression in expressions() if not expression.selectors] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of the package prometheus, is not installed")
def test_prometheus_accepts_its_configuration_and_the_rules_pass_their_tests() -> None:
    for *what, file in (("check", "config", "prometheus.yml"), ("test", "rules", "alerts.test.yml")):
        command = ["promtool", *what, str(PROMETHEUS / file)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stdout + completed.stderr
