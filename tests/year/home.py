"""One home: a meter whose messages its feed reduces, and the device that learns from them, with its files on a disk."""

import json
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.data.feed import Window
from sottovoce.days import DAY, last_complete_day
from sottovoce.errors import MessageRefused
from sottovoce.fleet.authority import Authority
from sottovoce.learning.learners import Learner
from sottovoce.node.local_vault import LEDGER, make_vault
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.node.task_activator import TaskActivator, active_configuration
from sottovoce.privacy.ledger.ledger_file import connect
from sottovoce.privacy.vault import Ledger, SeededNoise, Vault
from sottovoce_home.meters import Arrival, CounterState, Meter
from sottovoce_home.sources import build_sources
from sottovoce_home.store import WindowStore
from sottovoce_lab.simulator.device import Device

from tests.support.ledgers import SCHEMA_5
from tests.unit.learners.support import Stamp

HALF_HOUR = 1800
PERIOD = 3600.0


def configured(directory: Path, first: int, epsilon: float, unit: str) -> AgentConfig:
    """Make the configuration of the how-to, with a period of an hour."""
    return config_from_tables(
        {
            "agent": {"state": str(directory)},
            "data": {
                "source": f"feed:mqtt://127.0.0.1:1883#store={directory / 'windows.db'}",
                "features": 10,
                "classes": 1,
                "transform": "none",
                "expected_records": 44,
                "windows": [first, first + 3652],
            },
            "learner": {"model": "ridge", "period": PERIOD},
            "privacy": {"epsilon": epsilon, "unit": unit},
            "feed": {
                "store": str(directory / "windows.db"),
                "meters": [{"name": "house", "format": "glow", "names": {"device": "house"}, "longest_gap": 1800}],
            },
        },
        "year",
    )


class Home:
    """A home; `start` rebuilds everything that a power cut destroys.

    Args:
        name: name of the device.
        directory: directory for its files.
        wh: int64[half hours] from midnight of the first day, Wh; -1 where nothing is known.
        first: number of that day.
        wall: the true time, seconds of Unix time; the device's own clock may be wrong.
        epsilon: ε that a privacy unit may cost.
        unit: privacy unit: a window, so that each day has its own ε, or the device.
        seed: seed of its noise.

    Attributes:
        device: its device in the simulation.
        skew: seconds by which its clock is ahead.
        up: whether it has power.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        wh: NDArray[np.int64],
        *,
        first: int,
        wall: Callable[[], float],
        epsilon: float,
        unit: str,
        seed: int,
    ) -> None:
        directory.mkdir()
        self._directory = directory
        self._first = first
        self._counter = np.cumsum(np.concatenate([[4_000_000], np.maximum(wh, 0)])).tolist()
        self._known = (wh >= 0).tolist()
        self._before = 0
        self._wall = wall
        self._noise = SeededNoise(seed)
        self.config = configured(directory, first, epsilon, unit)
        Ledger.create(directory / LEDGER, name, required_budget(self.config))
        self._name = name
        self.skew, self.up = 0.0, False
        self._windows: WindowStore
        self._meter: Meter
        self.open_feed()
        self.device = Device(name, *self._opened())

    def _opened(self) -> tuple[Learner[Any], SqliteStore, Vault]:
        """Open what the agent starts with: the learner of the task that it has taken up, its state, and the vault."""
        ledger = self._ledger()
        config, epoch = active_configuration(self.config, ledger), 0 if ledger.mandate is None else ledger.mandate.epoch
        family = build_family(config)
        learner, codec = family.learner(self._name, Stamp(), ())
        vault = make_vault(config, family, ledger, clock=lambda: self.now, uptime=self._wall, noise=self._noise)
        return learner, SqliteStore(self._directory, learner, codec, vault.spending().current.releases, epoch), vault

    def _ledger(self) -> Ledger:
        return Ledger.open(self._directory / LEDGER, self._name, required_budget(self.config))

    @property
    def now(self) -> float:
        """The time by the home's own clock, seconds of Unix time."""
        return self._wall() + self.skew

    @property
    def over(self) -> int | None:
        """The last day that is over by the home's own clock, if it may be learnt from; else None."""
        day = last_complete_day(self.now)
        return day if day is not None and day >= self._first else None

    def open_feed(self) -> None:
        """Start the feed, which continues the count that it has stored."""
        (source,) = build_sources(self.config.feed)
        self._meter = Meter(source, HALF_HOUR)
        self._windows = WindowStore(self._directory / "windows.db", HALF_HOUR, keep_days=400)
        if (state := self._windows.states().get("house")) is not None:
            self._meter.resume(msgspec.msgpack.decode(state, type=CounterState))
        self.up = True

    def close(self) -> None:
        """Cut the power, or end the home: nothing is finished or flushed."""
        self._windows.close()
        self.device.vault.close()
        self.device.store.close()  # type: ignore[attr-defined]
        self.up = False

    def start(self) -> None:
        """Restore the power."""
        self.open_feed()
        self.device.learner, self.device.store, self.device.vault = self._opened()

    def take_up(self, document: bytes, authority: Authority) -> None:
        """Take up a task of the fleet while the home is down."""
        with closing(self._ledger()) as ledger:
            TaskActivator(self.config, ledger, self._directory, lambda: authority, lambda: self.now)(document)

    def of_the_version_before(self) -> None:
        """While the home is down, convert its ledger to what the program wrote before it had periods and numberings."""
        with closing(connect(self._directory / LEDGER, "rw")) as ledger:
            ledger.executescript(SCHEMA_5)

    def listen(self, begin: int, end: int) -> None:
        """Have the meter report its count at the start of each of these half hours, numbered from the first day."""
        kept: list[Window] = []
        for place in range(begin, end):
            if not (self._known[place - 1] if place else True):
                continue  # this reading is missing
            at = float(self._first * DAY + place * HALF_HOUR)
            energy = {"import": {"cumulative": (self._counter[place] - self._before) / 1000}}
            reading = {
                "electricitymeter": {
                    "timestamp": np.datetime64(int(at), "s").item().isoformat() + "Z",
                    "energy": energy,
                }
            }
            with suppress(MessageRefused):  # of a meter that was replaced: the feed says when it believes it
                kept += self._meter.process(
                    Arrival("glow/house/SENSOR/electricitymeter", json.dumps(reading).encode(), False, at, at)
                )
        self._windows.write(kept, {}, states={"house": msgspec.msgpack.encode(self._meter.state)})

    def replace_meter(self, at: int) -> None:
        """Replace the meter at half hour `at` by one that counts from 0."""
        self._before = self._counter[at]

    def size(self) -> int:
        """The size of all the home's files, in bytes."""
        return sum(file.stat().st_size for file in self._directory.iterdir())
