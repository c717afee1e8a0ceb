"""docs/reference/events.md: it lists the events that the code logs, with their levels, no more, no less."""

import re

from tests.support.log_lines import log_lines
from tests.support.sources import ROOT, display_path, sources

_ROW = re.compile(r"^\| `([a-z-]+)` \| (?:(debug|info|error) )?\| .+ \|$", re.MULTILINE)
_ONE_THAT_PASSES_IT_ON = "agent/sottovoce/privacy/rpc/server.py"


def test_the_page_lists_exactly_the_events_with_their_levels() -> None:
    rows = _ROW.findall((ROOT / "docs/reference/events.md").read_text(encoding="utf-8"))
    listed = [(event, level or "warning") for event, level in rows]
    logged = {(line.event, line.level) for line in log_lines() if line.event is not None}
    assert set(listed) == logged
    assert len(listed) == len(logged), "an event is listed once"


def test_every_logger_is_below_the_one_whose_lines_are_shown() -> None:
    loggers = [
        (display_path(file), name)
        for file in sources()
        for name in re.findall(r"^_log = logging\.getLogger\((.+)\)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(loggers) > 30
    assert [
        (file, name)
        for file, name in loggers
        if not (name.startswith('"sottovoce.') or (name == "__name__" and file.startswith("sottovoce/")))
    ] == []


def test_every_line_begins_with_the_name_of_an_event() -> None:
    unnamed = [line.where for line in log_lines() if line.event is None]
    assert [where.partition(":")[0] for where in unnamed] == [_ONE_THAT_PASSES_IT_ON]
    wrong = [line for line in log_lines() if line.event and re.fullmatch(r"[a-z]+(-[a-z]+)*", line.event) is None]
    assert wrong == []
