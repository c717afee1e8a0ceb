"""Label values: exactly those in the code, so they are few, and each has its series from the start."""

import re

from sottovoce.node.metric_values import CAUSES, REASONS, RECORD_REASONS, WAITS

from tests.support.sources import ROOT

_AGENT = ROOT / "agent/sottovoce"
_BOOTSTRAP = ROOT / "coordinator-free-bootstrap/sottovoce_bootstrap"
_WAIT = re.compile(
    r'(?:^_WAIT = "|\bwait(?:_name)?="|\bwait(?:, \w+)* = f"|\bname = f"|wait\w*\.begin\(\s*f?")([a-z-]+)(?=[:"])',
    re.MULTILINE,
)


def label_values(pattern: str | re.Pattern[str], *places: str) -> set[str]:
    """Return the label values in these packages' code."""
    directories = [_BOOTSTRAP if position == "bootstrap" else _AGENT / position for position in places]
    assert all(directory.is_dir() for directory in directories)
    texts = [file.read_text(encoding="utf-8") for directory in directories for file in directory.rglob("*.py")]
    return {word for text in texts for word in re.findall(pattern, text)}


def test_every_refusal_reason_is_known() -> None:
    refused = r'MessageRefused\(\s*"([a-z-]+)"'
    assert label_values(refused, "node", "algorithms", "learning", "privacy", "net/wire", "bootstrap") == set(REASONS)
    assert label_values(refused, "bootstrap") >= set(RECORD_REASONS)


def test_every_delivery_failure_cause_is_known() -> None:
    causes = label_values(r'DeliveryFailed\(\s*"([a-z-]+)"', "net") | label_values(r'\("([a-z]+)", "[^"]+"\)', "net")
    assert set(CAUSES) <= causes
    assert label_values(r'DeliveryFailed\(\s*"([a-z-]+)"', "net") <= set(CAUSES)


def test_every_wait_is_known() -> None:
    assert label_values(_WAIT, "node", "net", "privacy") == {*WAITS, "vault"}
