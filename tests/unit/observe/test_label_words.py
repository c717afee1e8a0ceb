"""Label values: those in the code and no others, so they are few, and each has its series from the start."""

import re

from sottovoce.agent.measured import CAUSES, REASONS, RECORD_REASONS, WAITS

from tests.support.sources import ROOT

_AGENT = ROOT / "agent/sottovoce"
_BOOTSTRAP = ROOT / "coordinator-free-bootstrap/sottovoce_bootstrap"
_WAIT = re.compile(
    r'(?:^_WAIT = "|\bwait="|\bwait(?:, \w+)* = f"|\bname = f"|wait\w*\.begin\(\s*f?")([a-z-]+)(?=[:"])', re.MULTILINE
)


def said(pattern: str | re.Pattern[str], *places: str) -> set[str]:
    """What the code of these rooms says."""
    rooms = [_BOOTSTRAP if place == "bootstrap" else _AGENT / place for place in places]
    texts = [file.read_text(encoding="utf-8") for room in rooms for file in room.rglob("*.py")]
    return {word for text in texts for word in re.findall(pattern, text)}


def test_every_reason_to_refuse_a_message_is_known() -> None:
    refused = r'MessageRefused\(\s*"([a-z-]+)"'
    assert said(refused, "agent", "algorithms", "learners", "secure_sum", "wire", "bootstrap") == set(REASONS)
    assert said(refused, "bootstrap") >= set(RECORD_REASONS)


def test_every_cause_of_a_failed_delivery_is_known() -> None:
    causes = said(r'DeliveryFailed\(\s*"([a-z-]+)"', "transport") | said(r'\("([a-z]+)", "[^"]+"\)', "transport")
    assert set(CAUSES) <= causes
    assert said(r'DeliveryFailed\(\s*"([a-z-]+)"', "transport") <= set(CAUSES)


def test_every_wait_is_known() -> None:
    assert said(_WAIT, "agent", "transport", "vault") == {*WAITS, "vault"}
