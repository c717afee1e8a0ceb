"""Alerts and dashboards in isolation; a test with a real agent checks that it exports the metrics that they name."""

import re
import shutil
import subprocess

import pytest

from tests.support.monitoring import PROMETHEUS, alerts, expressions, panels
from tests.support.sources import ROOT


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert len(alerts()) > 10
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "remedy"}, rule["alert"]
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"], rule["alert"]
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}, rule["alert"]


def test_every_alert_is_in_the_guide_and_nothing_else_is() -> None:
    guide = (ROOT / "docs/how-to/observe.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Sottovoce\w+)` \|", guide, re.MULTILINE) == [rule["alert"] for rule in alerts()]


def test_what_a_remedy_points_to_is_there() -> None:
    for rule in alerts():
        for page in re.findall(r"docs/[\w/-]+\.md", rule["annotations"]["remedy"]):
            assert (ROOT / page).exists(), f"{rule['alert']}: {page}"


def test_every_panel_has_a_description_and_a_place_of_its_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    assert len({panel["id"] for panel in panels()}) == len(panels())
    for panel in panels():
        assert panel["type"] == "row" or (panel["description"] and panel["targets"]), panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


def test_no_expression_is_without_a_metric() -> None:
    assert [one.where for one in expressions() if not one.selectors] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of the package prometheus, is not installed")
def test_prometheus_takes_its_configuration_and_the_rules_do_what_they_should() -> None:
    for *what, file in (("check", "config", "prometheus.yml"), ("test", "rules", "alerts.test.yml")):
        command = ["promtool", *what, str(PROMETHEUS / file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
