"""A fleet whose first device reads its records from a file or a feed, and everything that others can see of it.

The real loader, ledger on disk, vault, learner and state file run under a virtual clock. The releases of the first
device are recorded in one world and repeated in the other: whatever else differs then was not paid for.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit
from numpy.typing import NDArray
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, load
from sottovoce.days import DAY, NOT_BEFORE
from sottovoce.errors import SottovoceError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.node.local_vault import make_vault
from sottovoce.node.vault_session import runnable_family
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import Query
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.vault import Budget, Ledger, Mandate, SeededNoise, Vault
from sottovoce_lab.simulator import Faults
from sottovoce_lab.simulator.device import Device
from sottovoce_lab.simulator.simulation import Simulation
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

from tests.neighbours.world import Seen as Answer, suppress_noise

Write = Callable[[Path], str]
"""Writes a device's records into a directory, and returns the data SPEC."""
Releases = dict[tuple[bytes, int], NDArray[np.int64]]
"""Values that the first device released, by query and number; those of secure sums under an empty id."""

TODAY = int(NOT_BEFORE // DAY) + 40
_CYCLES = 12


@dataclass(frozen=True)
class Scenario:
    """What the worlds have in common.

    Attributes:
        name: name for the report.
        tables: tables of the configuration, without `data.source`.
        devices: number of devices.
        ledger: the ledger's own budget, if the configuration describes a task with another one.
    """

    name: str
    tables: Mapping[str, Mapping[str, Any]]
    devices: int = 3
    ledger: Budget | None = None


@dataclass
class Seen:
    """Everything that can be seen from outside.

    Attributes:
        events: each event in the fleet with its time and content.
        files: size in bytes of each file of the first device, by name, at each stop.
        log: lines that the first device's process logs.
        starts: for each start of the first device, the statement, or the error with its exit code.
        spending: what `agent status` and the metrics say of the ledger.
        exact: the releases without noise, in grid units, by query and number; they never leave the vault.
        charges: the charges, by query; those of secure sums under an empty id, since their ids are drawn.
    """

    events: list[Any] = field(default_factory=list)
    files: list[dict[str, int]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    spending: list[str] = field(default_factory=list)
    exact: Releases = field(default_factory=dict)
    charges: dict[bytes, Event] = field(default_factory=dict)


def live(scenario: Scenario, directory: Path, own: list[Write], others: list[Write], releases: Releases) -> Seen:
    """Run a fleet, and return what can be seen of the first device.

    Args:
        scenario: what the worlds have in common.
        directory: an empty directory.
        own: for each start of the first device, its records.
        others: the records of each other device.
        releases: values to release again; if empty, it receives this world's releases.
    """
    seen, is_first, rest = Seen(), not releases, iter(own)
    names = [f"home-{number}" for number in range(scenario.devices)]
    homes = [directory / name for name in names]
    for home in homes:
        (home / "state").mkdir(parents=True)
    with _log_lines(seen.log, directory):
        devices = [
            _start(scenario, home, write, names, number + 1, None)
            for number, (home, write) in enumerate(zip(homes[1:], others, strict=True))
        ]
        try:
            first = _start(scenario, homes[0], next(rest), names, 0, (releases, is_first, seen.exact))
        except SottovoceError as error:
            seen.starts.append(_describe(error, directory))
            return seen
        seen.starts.append(str(_vault(first).statement))
        observer = _Observer(seen, scenario)
        simulation = Simulation([first, *devices], faults=Faults(), period=1.0, seed=7, event_observer=observer)
        simulation.start()
        _run(simulation, scenario)
        for write in rest:
            simulation.kill(first.id)
            _stop(seen, first, homes[0])
            try:
                again = _start(scenario, homes[0], write, names, 0, (releases, is_first, seen.exact))
            except SottovoceError as error:
                seen.starts.append(_describe(error, directory))
                return seen
            seen.starts.append(str(_vault(again).statement))
            first.vault, first.learner = again.vault, again.learner
            simulation.restart(first.id)
            _run(simulation, scenario)
        _stop(seen, first, homes[0])
    return seen


def _run(simulation: Simulation, scenario: Scenario) -> None:
    """Run half of the cycles; a feed's days end one by one."""
    windows = iter(range(*scenario.tables["data"].get("windows", (0, 0))))
    for _ in range(_CYCLES // 2):
        simulation.run_until(simulation.now + 1)
        if (window := next(windows, None)) is not None and scenario.tables["data"]["classes"] == 1:
            for name in simulation.devices:
                simulation.end_window(name, window)


def _start(
    scenario: Scenario,
    home: Path,
    write: Write,
    names: list[str],
    number: int,
    forced: tuple[Releases, bool, Releases] | None,
) -> Device:
    """Start a device from its configuration file, as the command does."""
    config = _configure(scenario, home, write(home), is_first=number == 0)
    family = runnable_family(config)
    budget, path, name = required_budget(config), config.agent.state / "ledger.db", names[number]
    if not path.exists():
        with pytest.MonkeyPatch.context() as patch:  # the key of record numbers
            patch.setattr(os, "urandom", lambda count: bytes([number]) * count)
            Ledger.create(path, name, scenario.ledger or budget)
    ledger = Ledger.open(path, name, scenario.ledger or budget)
    if scenario.ledger is not None and ledger.mandate is None:
        ledger.take_up(Mandate(1, budget, b"signed"))
    vault = make_vault(
        config,
        family,
        ledger,
        clock=lambda: float(TODAY * DAY + 3600),
        uptime=lambda: 0.0,
        noise=SeededNoise(number),
        verify_member=UnsignedProvenance().verify,
    )
    if forced is not None:
        _force(vault, *forced)
    learner, _ = family.learner(name, UnsignedProvenance(), ())
    peers = tuple(peer for peer in names if peer != name)
    return Device(id=name, learner=learner, store=MemoryStore(learner.initial_state()), vault=vault, peers=peers)


def _configure(scenario: Scenario, home: Path, source: str, *, is_first: bool) -> AgentConfig:
    tables: dict[str, Any] = {name: dict(table) for name, table in scenario.tables.items()}
    tables["agent"] = {"state": str(home / "state")}
    tables["data"]["source"] = source
    if is_first and ALGORITHMS[tables["learner"]["name"]].has_initiator:
        tables["learner"]["begins_walk"] = True
    if source.startswith("feed:"):
        tables["feed"] = {"store": str(home / "windows.db")}
    file = home / "agent.toml"
    file.write_text(tomlkit.dumps(tables), encoding="utf-8")
    return load(file)


def _vault(device: Device) -> Vault:
    assert isinstance(device.vault, Vault)
    return device.vault


def _stop(seen: Seen, device: Device, home: Path) -> None:
    ledger = _vault(device)._context.ledger
    for _, terms, _ in ledger.charges():
        if "cell-sum" in terms:
            seen.charges[b""] = parse_event(terms)
    seen.charges |= {query: event for query, _ in seen.exact if (event := ledger.charged_event(query)) is not None}
    seen.spending.append(f"{device.vault.spending()} written {device.vault.spending().written_today}")
    _vault(device).close()
    seen.files.append({str(file.relative_to(home)): file.stat().st_size for file in sorted((home / "state").iterdir())})


def _describe(error: SottovoceError, directory: Path) -> str:
    return f"{type(error).__name__} {error.exit_code}: {error}".replace(str(directory), "")


class _Observer:
    """Records every event of the fleet; the vault's private values are not among them."""

    def __init__(self, seen: Seen, scenario: Scenario) -> None:
        self._seen, self._hides_content = seen, "cell" in scenario.tables["privacy"]

    def observe(self, event: str, at: float, device: str, state: Any, **facts: Any) -> None:
        shown = {name: fact.traced() if hasattr(fact, "traced") else fact for name, fact in facts.items()}
        if self._hides_content:  # the system draws keys, masks and shares, so only their sizes are equal
            shown = _sizes(shown)
        elif state is not None:
            shown["state"] = state.traced()
        self._seen.events.append((round(at, 9), event, device, shown))


def _sizes(value: Any) -> Any:
    match value:
        case bytes() | str():
            return len(value)
        case dict():
            return {key: _sizes(part) for key, part in value.items()}
        case list() | tuple():
            return [_sizes(part) for part in value]
    return value if isinstance(value, bool | int | float | None) else len(repr(value))


@contextmanager
def _log_lines(lines: list[str], directory: Path) -> Iterator[None]:
    """Append the log lines of Sottovoce, without this world's directory."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {record.getMessage()}".replace(str(directory), ""))

    logger, handler = logging.getLogger("sottovoce"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _force(vault: Vault, releases: Releases, is_first: bool, exact: Releases) -> None:
    """Record what the vault releases, or release what was recorded in the other world.

    Args:
        vault: the vault.
        releases: the recorded values.
        is_first: whether to record.
        exact: receives the values without noise.
    """

    def exchange(key: bytes, mechanism: Any, arguments: tuple[Any, ...]) -> NDArray[np.int64]:
        number = sum(query == key for query, _ in exact)
        if isinstance(arguments[0], Iterator):  # it is used twice below
            arguments = [*arguments[0]], *arguments[1:]
        computed = mechanism.apply(*arguments)
        with suppress_noise(Answer(Query("", "", 0, np.empty(0)))):
            exact[key, number] = computed if isinstance(mechanism, RecordMechanism) else mechanism.apply(*arguments)
        return releases.setdefault((key, number), computed) if is_first else releases.get((key, number), computed)

    context = vault._context
    program: Any = _ForcedProgram(context.program, exchange)
    vault._context = replace(context, program=program)
    if (cell := vault._cell) is not None:
        mechanism: Any = _ForcedMechanism(cell.mechanism, partial(exchange, b""))
        vault._cell = replace(cell, mechanism=mechanism)


class _ForcedProgram:
    def __init__(self, program: Any, exchange: Callable[..., NDArray[np.int64]]) -> None:
        self._program, self._exchange = program, exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def plan(self, query: Query) -> Any:
        plan = self._program.plan(query)
        if not hasattr(plan, "mechanism"):
            return plan
        return replace(plan, mechanism=_ForcedMechanism(plan.mechanism, partial(self._exchange, query.id)))


class _ForcedMechanism:
    def __init__(self, mechanism: Any, exchange: Callable[[Any, tuple[Any, ...]], NDArray[np.int64]]) -> None:
        self._mechanism, self._exchange = mechanism, exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)

    def apply(self, *arguments: Any) -> NDArray[np.int64]:
        return self._exchange(self._mechanism, arguments)
