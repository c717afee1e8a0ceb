"""Log lines, for people and for programs."""

import json
import logging
import sys
from io import StringIO

import pytest
from sottovoce.ops.logs import JsonLines, fields, log_to_stderr


def format_line(level: int, text: str, *values: object, exc_info: object = None) -> dict[str, object]:
    record = logging.LogRecord("sottovoce.x", level, "x.py", 1, text, values, exc_info)  # type: ignore[arg-type]
    formatted = JsonLines().format(record)
    assert "\n" not in formatted
    assert formatted.isascii()
    parsed: dict[str, object] = json.loads(formatted)
    return parsed


def test_a_line_contains_its_event_text_and_fields() -> None:
    result = format_line(logging.WARNING, "message-refused sender=%s reason=%s %s", "abc", "shape", "two\nlines of ε")
    assert (result["level"], result["event"]) == ("warning", "message-refused")
    assert result["text"] == "sender=abc reason=shape two\nlines of ε"
    assert result["fields"] == {"sender": "abc", "reason": "shape"}


def test_numbers_stay_numbers_in_json() -> None:
    values = (3, 1.5, float("nan"), ["a"])
    assert fields("x count=%d for_s=%.0f odd=%s list=%s", values) == {
        "count": 3,
        "for_s": 1.5,
        "odd": "nan",
        "list": "['a']",
    }


def test_unnamed_placeholders_are_skipped_and_percent_signs_are_none() -> None:
    assert fields("x 100%% of %s at=%s", ("it", 7)) == {"at": 7}
    assert fields("x of nothing", None) == {}
    assert format_line(logging.INFO, "left nothing is missed")["fields"] == {}


def test_an_event_may_be_an_argument_or_end_with_a_colon() -> None:
    assert format_line(logging.WARNING, "%s %s", "user-refused", "uid=7")["event"] == "user-refused"
    assert format_line(logging.ERROR, "broker-failed: report this")["event"] == "broker-failed"


def test_an_exception_is_included() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        result = format_line(logging.ERROR, "page-failed", exc_info=sys.exc_info())
    assert str(result["exception"]).endswith("ValueError: why")


@pytest.mark.parametrize("form, begins", [("text", "20"), ("json", '{"time": "20')])
def test_both_formats_go_to_standard_error(form: str, begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("sottovoce")
    before = log.handlers[:], log.level, log.propagate
    output = StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    try:
        log_to_stderr("info", form)  # type: ignore[arg-type]
        logging.getLogger("sottovoce.node").info("ready id=%s", "abc")
        logging.getLogger("sottovoce.node").debug("unsaid")
    finally:
        log.handlers[:], log.propagate = before[0], before[2]
        log.setLevel(before[1])
    (one,) = output.getvalue().splitlines()
    assert one.startswith(begins)
    assert "ready" in one
