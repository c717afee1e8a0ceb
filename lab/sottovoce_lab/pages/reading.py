"""A report of a run as its page needs it: `sottovoce.report/1`, checked field by field."""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from sottovoce.errors import DataError

Number = float | None
Measures = dict[str, float | str | None]


class Privacy(Struct, frozen=True):
    """What is promised, and what was spent."""

    unit: str
    neighbouring: str
    mechanism: str
    status: str
    threat_model: str
    releases: int
    epsilon: Number
    delta: Number
    spent_epsilon_max: Number
    reason: str = ""
    composition: str = ""
    ledgers_agree: bool = True


class Traffic(Struct, frozen=True):
    """What was sent."""

    messages: int
    payload_bytes: int
    wire_bytes: int
    wire_bytes_per_agent_cycle: float


class Resources(Struct, frozen=True):
    """What an agent took."""

    ready_s_median: Number = None
    rss_mib_median: Number = None
    rss_mib_max: Number = None
    cpu_s_per_agent: Number = None


class Agent(Struct, frozen=True):
    """One of the fleet."""

    id: str
    alive: bool
    cycles: int
    peers: int
    epsilon_spent: Number
    releases: int


class RunReport(Struct, frozen=True, tag_field="schema", tag="sottovoce.report/1"):
    """The whole report."""

    run: dict[str, Any]
    privacy: Privacy
    curve: list[Measures]
    final: Measures
    traffic: Traffic
    resources: Resources
    agents: list[Agent]
    faults: list[str] = []
    warnings: list[str] = []


def read_report(path: Path) -> RunReport:
    """The report in a file.

    Raises:
        DataError: it cannot be read, or is no report.
    """
    try:
        return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), RunReport)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); name what --report has written") from error
    except (ValueError, RecursionError) as error:  # of JSON, of UTF-8, and of msgspec
        raise DataError(
            f"{path}: is no sottovoce.report/1 ({error}); name what `sottovoce testbed` or `sottovoce simulate` has "
            "written with --report"
        ) from error
