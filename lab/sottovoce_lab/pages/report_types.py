"""Reports on runs and sweeps in the form that their pages need, checked field by field."""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from sottovoce.errors import DataError

_SCHEMAS = ("sottovoce.report/1", "sottovoce.sweep/1")
Number = float | None
Metrics = dict[str, float | str | None]


class Privacy(Struct, frozen=True):
    """A run's privacy promise and spending."""

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
    """The numbers of messages and bytes sent."""

    messages: int
    payload_bytes: int
    wire_bytes: int
    wire_bytes_per_agent_cycle: float


class Resources(Struct, frozen=True):
    """The resources that the agents used."""

    ready_s_median: Number = None
    rss_mib_median: Number = None
    rss_mib_max: Number = None
    cpu_s_per_agent: Number = None


class Agent(Struct, frozen=True):
    """An agent in the fleet."""

    id: str
    alive: bool
    cycles: int
    peers: int
    epsilon_spent: Number
    releases: int


class Baselines(Struct, frozen=True):
    """The accuracies of trivial rules."""

    majority_class: float
    own_data: float


class Comparison(Struct, frozen=True):
    """The result of a simulated variant of a run: an accuracy, or an error of predicted numbers."""

    label: str
    half_interval: float
    seeds: int
    promise: str
    accuracy_mean: float | None = None
    mae_mean: float | None = None


class RunReport(Struct, frozen=True, tag_field="schema", tag="sottovoce.report/1"):
    """The complete report on a run."""

    run: dict[str, Any]
    privacy: Privacy
    curve: list[Metrics]
    final: Metrics
    traffic: Traffic
    resources: Resources
    agents: list[Agent]
    faults: list[str] = []
    baselines: Baselines | None = None
    comparisons: list[Comparison] = []
    warnings: list[str] = []


class SweptRun(Struct, frozen=True):
    """One run in a sweep."""

    set: dict[str, Any]
    final: Metrics
    privacy: dict[str, Any]
    curve: list[Metrics] = []
    baselines: Baselines | None = None
    warnings: list[str] = []


class SweepReport(Struct, frozen=True, tag_field="schema", tag="sottovoce.sweep/1"):
    """The report on all runs in a sweep."""

    keys: dict[str, list[Any]]
    runs: list[SweptRun]


def read_report(path: Path) -> RunReport | SweepReport:
    """Read a report from a file.

    Raises:
        DataError: if the file cannot be read or is not a report.
    """
    remedy = "specify a file that `sottovoce testbed`, `simulate` or `run` wrote with --report"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:  # raised for invalid JSON or UTF-8
        raise DataError(f"{path}: not a Sottovoce report, because it is not JSON ({error}); {remedy}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in _SCHEMAS:
        raise DataError(
            f"{path}: not a Sottovoce report (found schema {schema}, expected {' or '.join(_SCHEMAS)}); {remedy}"
        )
    return parse_report(document, str(path))


def parse_report(document: Any, origin: str) -> RunReport | SweepReport:
    """Return a document as a report.

    Raises:
        DataError: if the document is not complete.
    """
    try:
        return msgspec.convert(document, RunReport | SweepReport)
    except msgspec.ValidationError as error:
        schema = document["schema"]
        raise DataError(f"{origin}: not a complete {schema} ({error}); write it again with --report") from error
