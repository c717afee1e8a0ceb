"""docs/reference/metrics.md: it lists every metric with its label, and every label value; names show the types."""

import re

from sottovoce.node.faults import MANUAL_KINDS, TRANSIENT_KINDS
from sottovoce.node.observation import CAUSES, OUTCOMES, PHASES, REASONS, RECORD_REASONS, WAITS
from sottovoce.ops.metrics import CATALOGUE

from tests.support.sources import ROOT

_PAGE = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(sottovoce_\w+)` \| (?:`(\w+)`)? ?\| .+ \|$", re.MULTILINE)


def test_the_page_lists_exactly_the_metrics() -> None:
    rows = _ROW.findall(_PAGE)
    assert sorted(rows) == sorted((name, item.label) for name, item in CATALOGUE.items())


def test_the_page_lists_every_label_value() -> None:
    words = {*CAUSES, *MANUAL_KINDS, *TRANSIENT_KINDS, *OUTCOMES, *PHASES, *REASONS, *RECORD_REASONS, *WAITS}
    assert [word for word in sorted(words) if f"`{word}`" not in _PAGE] == []


def test_names_follow_prometheus_conventions() -> None:
    for name, described in CATALOGUE.items():
        assert re.fullmatch(r"sottovoce_[a-z]+(_[a-z]+)*", name), name
        assert name.endswith("_total") == (described.kind == "counter"), name
        assert not {"milliseconds", "ms", "kib", "mib", "percent"} & set(name.split("_")), f"{name}: base units"
