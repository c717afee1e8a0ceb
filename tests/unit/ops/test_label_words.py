"""Label values: exactly those in the code, so they are few, and each has its series from the start."""

import re

from sottovoce.node.observation import CAUSES, REASONS, RECORD_REASONS, WAITS

from tests.support.sources import ROOT

_AGENT = ROOT / "agent/sottovoce"
_BESIDE = {
    "bootstrap": ROOT / "coordinator-free-bootstrap/sottovoce_bootstrap",
    "papers": ROOT / "papers/sottovoce_papers",
}
_WAIT = re.compile(
    r'(?:^_WAIT = "|\bwait(?:_name)?="|\bwait(?:, \w+)* = f"|\bname = f"|wait\w*\.begin\(\s*f?")([a-z-]+)(?=[:"])',
    re.MULTILINE,
)


def label_values(pattern: str | re.Pattern[str], *places: str) -> set[str]:
    """Return the label values in the code of these packages and files."""
    found = [_BESIDE.get(position, _AGENT / position) for position in places]
    files = [file for place in found for file in ([place] if place.is_file() else place.rglob("*.py"))]
    assert all(place.exists() for place in found)
    texts = [file.read_text(encoding="utf-8") for file in files]
    return {word for text in texts for word in re.findall(pattern, text)}


def test_every_refusal_reason_is_known() -> None:
    refused = r'MessageRefused\(\s*"([a-z-]+)"'
    places = ("node", "algorithms", "learning", "privacy", "net/quota.py", "net/wire", "bootstrap", "papers")
    assert label_values(refused, *places) == set(REASONS)
    assert label_values(refused, "bootstrap") >= set(RECORD_REASONS)


def test_every_delivery_failure_cause_is_known() -> None:
    causes = label_values(r'DeliveryFailed\(\s*"([a-z-]+)"', "net") | label_values(r'\("([a-z]+)", "[^"]+"\)', "net")
    assert set(CAUSES) <= causes
    assert label_values(r'DeliveryFailed\(\s*"([a-z-]+)"', "net") <= set(CAUSES)


def test_every_wait_is_known() -> None:
    assert label_values(_WAIT, "node", "net", "privacy") == {*WAITS, "vault"}
