"""One of two worlds: the real vault over one side's records, without noise and with everything else observed.

This code is independent of the shipped auditor. It touches only the vault's entry points and the places where noise is
drawn.
"""

import hashlib
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig
from sottovoce.data import Records, add_identities
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.node.local_vault import load_configured_dataset, load_configured_records
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import PrivacyStatement, Query, Refused
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.mechanisms.samplers.block_sampler import BlockSampler
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import DiscreteLaplaceSampler
from sottovoce.privacy.mechanisms.samplers.max_norm_laplace import MaxNormLaplaceSampler
from sottovoce.privacy.secure_sum.statements import Statement
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import GrowingRecords, Ledger, SeededNoise
from sottovoce.privacy.vault.cell_context import CellContext
from sottovoce.privacy.vault.programs.program import Plan
from sottovoce_lab.auditor.targets.cells import OtherMembers

from tests.neighbours.files import draw_layout, write_records
from tests.neighbours.rows import Row

Ints = NDArray[np.int64]


def _accept_any_statement(statement: Statement) -> None:
    """Accept any statement: the auditor signs for all other members."""


class Crash(Exception):
    """Crash of the device, as planned by the test."""


@dataclass
class Seen:
    """Inputs of one answer.

    Attributes:
        query: the query.
        refused: reason of a refusal; None for a release.
        exact: the release without noise, in grid units; None for a record mechanism.
        record: for a record mechanism, its input row.
        laws: for each draw of noise, its law, its parameter, and the number of values.
        added: what the mechanism adds to `exact` when the sampler's draws are `draws`.
        draws: numbers that a sampler was made to return, all different and up to eight times the noise's scale.
        charged: the ledger's charge for this query.
        was_stored: whether an earlier answer to this query was complete.
        units: the numbers of the differing records in the vault.
        words: for a random batch, the random word that decided about each record, in the file's order.
        drawn: records that the release was computed from, in the file's order.
    """

    query: Query
    refused: str | None = None
    exact: Ints | None = None
    record: tuple[bytes, ...] = ()
    laws: list[tuple[str, int, int]] = field(default_factory=list)
    added: Ints | None = None
    draws: list[int] = field(default_factory=list)
    charged: Event | None = None
    was_stored: bool = False
    units: frozenset[int] = frozenset()
    plan: Plan[Any] | None = None
    words: list[tuple[bytes, int]] = field(default_factory=list)
    drawn: list[bytes] = field(default_factory=list)


class CoupledNoise(SeededNoise):
    """Words for batches, one per record: equal in both worlds for a shared record, 0 for a differing record."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.turn = b""
        self.held: list[tuple[bytes, bool]] = []
        self.given: list[tuple[bytes, int]] = []

    def random_words(self, count: int) -> NDArray[np.uint64]:
        """Return words for a batch, uint64[count]."""
        if count != len(self.held):
            return super().random_words(count)
        self.given = [(row, 0 if differs else self._word(row)) for row, differs in self.held]
        return np.array([word for _, word in self.given], dtype=np.uint64)

    def _word(self, row: bytes) -> int:
        whole = hashlib.sha256(row + self.turn + self.seed.to_bytes(8, "big")).digest()
        return int.from_bytes(whole[:8], "big")


@dataclass
class World:
    """Device of one side: its ledger persists, its vault is rebuilt at each start.

    Attributes:
        seed: seed of the coins, and of the layout of the file.
        directory: directory of the file with the records.
        ledger: ledger of the device; None before the first start.
        rows: rows of the file at the last start.
        answered: epoch and id of each query whose release was stored.
        enrolled: for each epoch, the records that its first start enrolled, and whether each differs.
    """

    seed: int
    directory: Path
    ledger: Ledger | None = None
    statement: PrivacyStatement | None = None
    crash: str | None = None
    seen: Seen | None = None
    history: list[Seen] = field(default_factory=list)
    over: int | None = None
    answered: set[tuple[int, bytes]] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    enrolled: dict[int, tuple[list[bytes], list[bool]]] = field(default_factory=dict)

    def start(self, config: AgentConfig, rows: list[Row], *, follows: bool = False) -> None:
        """Build the vault as the product does, from a file with these rows; if records are followed, over arrived ones.

        Raises:
            DataError: if the file is refused.
        """
        family = build_family(config)
        has_windows, features = config.data.windows is not None, config.data.features
        layout = draw_layout(random.Random(self.seed), has_windows=has_windows, features=features)
        declared = write_records(self.directory, layout, rows, config)
        raw, records = load_configured_dataset(declared).records, load_configured_records(declared)
        assert len(raw) == len(rows), "each row of a file becomes one record"
        if self.ledger is None:
            self.ledger = Ledger.in_memory("meter-17", required_budget(config))
        self.noise = CoupledNoise(self.seed)
        self.vault = build(
            records=records,
            kernel=family.kernel,
            terms=family.terms,
            ledger=self.ledger,
            noise=self.noise,
            verify_signature=None if config.cell is None else _accept_any_statement,
            growing_records=GrowingRecords(lambda: self._arrived_records(records), lambda: self.over)
            if follows
            else None,
        )
        known = add_identities(raw).identities
        self.identities = [] if known is None else [row.tobytes() for row in known]
        self.rows, self.differing = rows, [row.differs for row in rows]
        # Enrolled records are those of the task's first start, in its order.
        if self.ledger.numbers.enrolled_records(self.epoch) is not None:
            self.identities, self.differing = self.enrolled.setdefault(self.epoch, (self.identities, self.differing))
        self.statement = self.vault.statement
        context = self.vault._context
        self.units = raw.windows if config.unit == "window" else context.records.units
        if (cell := self.vault._cell) is not None:
            watched = _RecordingCell(self, cell)
            self.vault._cell = replace(cell, ledger=watched, mechanism=watched, raw=watched.raw)  # type: ignore[arg-type]
        watched_ledger: Any = _CrashingLedger(self, context.ledger)
        watched_program: Any = _RecordingProgram(self, context.program)
        self.vault._context = replace(context, program=watched_program, ledger=watched_ledger)

    @property
    def epoch(self) -> int:
        """Epoch of the ledger's task; 0 without a task."""
        return 0 if self.ledger is None or self.ledger.mandate is None else self.ledger.mandate.epoch

    def _arrived_records(self, records: Records) -> Records:
        """Return the records of finished windows, and of the window in progress."""
        assert records.windows is not None
        return records.at(np.flatnonzero(records.windows <= (0 if self.over is None else self.over + 1)))

    def ask(self, query: Query, crash: str | None = None, over: int | None = None) -> Seen:
        """Request an answer; return its inputs, up to the crash if the device dies at this point."""
        assert self.ledger is not None
        self.over = over
        key = self.epoch, query.id
        self.seen, self.crash = Seen(query, was_stored=key in self.answered), crash
        self.noise.turn, self.noise.given = query.id, []
        self.noise.held = list(zip(self.identities, self.differing, strict=True))
        before = len(self.charges())
        try:
            if self.vault._cell is not None:
                self._take_part(query)
            else:
                answer = self.vault.answer(query)
                if isinstance(answer, Refused):
                    self.seen.refused = answer.reason
        except Crash:
            self.seen.refused = "died"
        except LedgerError:  # the query was charged under other terms
            self.seen.refused = "ledger"
        except PrivacyError:  # a step of a secure sum was refused
            self.seen.refused = "step"
        self.crash = None
        self.seen.charged, self.seen.words = self.ledger.charged_event(query.id), self.noise.given
        if self.vault._cell is not None and len(self.charges()) > before:
            self.seen.charged = parse_event(self.charges()[-1][1])
        if self.units is not None:
            self.seen.units = frozenset(
                int(unit) for unit, differs in zip(self.units, self.differing, strict=True) if differs
            )
        self.history.append(self.seen)
        if self.seen.refused is None or (self.seen.refused == "died" and crash == "stored"):
            self.answered.add(key)
        return self.seen

    def _take_part(self, query: Query) -> None:
        """Play one round of a secure sum, in which the auditor plays all other members."""
        cell = self.vault._cell
        assert cell is not None
        self.noise.held = []
        others = OtherMembers(cell.learner, cell.mechanism, 1, "meter-17")
        part = others.part(self.vault, query.slot, query.point[: cell.points].astype("<f8").tobytes())
        assert self.seen is not None
        assert self.seen.exact is not None
        assert np.array_equal(part, self.seen.exact), "the masked vector equals the computed one"

    def die(self, after: str) -> None:
        """Crash if this is the planned point."""
        if self.crash == after:
            raise Crash(after)

    def charges(self) -> list[tuple[bytes, str, str]]:
        """Return all charges in the ledger; those of secure sums without ids, which depend on keys drawn each time."""
        assert self.ledger is not None
        return [(b"" if "cell-sum" in terms else query, terms, stamp) for query, terms, stamp in self.ledger.charges()]


class _RecordingProgram:
    """Wrapper that watches the program and the mechanisms of its plans."""

    def __init__(self, world: World, program: Any) -> None:
        self._world, self._program = world, program

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def plan(self, query: Query) -> Any:
        plan = self._program.plan(query)
        if isinstance(plan, Refused):
            return plan
        assert self._world.seen is not None
        self._world.seen.plan = plan
        return replace(plan, mechanism=_NoiseFreeMechanism(self._world, plan.mechanism))

    def compute(self, query: Query, records: Records) -> Any:
        world = self._world
        world.die("charged")
        assert world.seen is not None
        if records.identities is not None:
            world.seen.drawn = [row.tobytes() for row in records.identities]
        return self._program.compute(query, records)


class _NoiseFreeMechanism:
    """Mechanism without its noise, which is only recorded."""

    def __init__(self, world: World, mechanism: Any) -> None:
        self._world, self._mechanism = world, mechanism
        self.size, self.exponent = mechanism.size, mechanism.exponent

    def apply(self, raw: Any, noise: Any) -> Ints:
        seen = self._world.seen
        assert seen is not None
        if isinstance(self._mechanism, RecordMechanism):
            seen.record = tuple(
                row.tobytes() + bytes([int(label)]) for row, label in zip(raw.features, raw.labels, strict=True)
            )
            value = np.zeros(self.size, dtype=np.int64)
        else:
            value = _observe_noise(seen, raw, lambda rows: self._mechanism.apply(rows, noise))
        self._world.die("drawn")
        return value


class _RecordingCell:
    """Ledger and mechanism of a cell, around which a device may crash; without noise, which is only recorded."""

    def __init__(self, world: World, cell: CellContext) -> None:
        self._world, self._ledger, self._mechanism, self._raw = world, cell.ledger, cell.mechanism, cell.raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger if name in ("payable_units", "owner") else self._mechanism, name)

    def charge(self, query: bytes, event: Event) -> bool:
        self._world.die("planned")
        return self._ledger.charge(query, event)

    def store(self, query: bytes, release: Any) -> None:
        self._ledger.store(query, release)
        self._world.die("stored")

    def raw(self, point: NDArray[np.float64], records: Records) -> Any:
        self._world.die("charged")
        return self._raw(point, records)

    def apply(self, raw: Any, members: int, noise: Any) -> Ints:
        seen = self._world.seen
        assert seen is not None
        value = _observe_noise(seen, raw, lambda rows: self._mechanism.apply(rows, members, noise))
        self._world.die("drawn")
        return value


class _CrashingLedger:
    """Ledger before and after whose steps a device may crash."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world, self._ledger = world, ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def charge(self, query: bytes, event: Event) -> bool:
        self._world.die("planned")
        return self._ledger.charge(query, event)

    def store(self, query: bytes, release: Any) -> None:
        self._ledger.store(query, release)
        self._world.die("stored")


CRASHES = ("planned", "charged", "drawn", "stored")
"""Steps of the vault after which a device may crash."""


def _observe_noise(seen: Seen, raw: Any, apply: Callable[[Any], Ints]) -> Ints:
    """Return the release without noise, and record it, the laws of its noise, and where each draw is added."""
    given = [raw, raw] if isinstance(raw, np.ndarray) else [iter(rows) for rows in [list(raw)] * 2]

    def draw_known(law: str, scale: int, shape: tuple[int, ...]) -> Ints:
        del law
        count = math.prod(shape)
        numbers = np.arange(1, count + 1, dtype=np.int64) * max(1, 8 * scale // count)
        numbers[::2] *= -1
        seen.draws.extend(numbers.tolist())
        return numbers.reshape(shape)

    with suppress_noise(seen):
        seen.exact = apply(given[0])
    with _replaced_noise(draw_known):
        seen.added = apply(given[1]) - seen.exact
    return seen.exact


@contextmanager
def suppress_noise(seen: Seen) -> Iterator[None]:
    """Make every draw 0, and record its distribution."""

    def draw_zeros(law: str, scale: int, shape: tuple[int, ...]) -> Ints:
        seen.laws.append((law, scale, math.prod(shape)))
        return np.zeros(shape, dtype=np.int64)

    with _replaced_noise(draw_zeros):
        yield


@contextmanager
def _replaced_noise(draw: Callable[[str, int, tuple[int, ...]], Ints]) -> Iterator[None]:
    """Draw all noise by a function of its law, its scale and its shape."""

    def draw_numbers(self: Any, count: int) -> Ints:
        gaussian = isinstance(self, DiscreteGaussianSampler)
        return draw("gaussian", self.sigma, (count,)) if gaussian else draw("laplace", self.scale, (count,))

    def draw_rows(self: Any, count: int) -> Ints:
        return draw("k-norm", self._laplace.scale, (count, self.length))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockSampler, "draw", draw_numbers)
        patch.setattr(MaxNormLaplaceSampler, "draw", draw_rows)
        for sampler in (DiscreteGaussianSampler, DiscreteLaplaceSampler):  # tables are costly, and nothing reads them
            patch.setattr(sampler, "_first_table", lambda self, bits: np.empty(0, dtype=np.uint64))
        yield
