"""The year: what happens on which day, and what must hold on every day."""

import random
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from sottovoce.data.forecast import energy_kwh, forecast_table
from sottovoce.days import DAY, NOT_BEFORE
from sottovoce.errors import TaskRefused
from sottovoce.fleet.signed_task import SignedTask
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.vault import Ledger
from sottovoce.reports.account import audit_account, build_account
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.simulator.simulation import Simulation
from sottovoce_operator.fleet import create_fleet
from sottovoce_operator.fleet.rotation import rotate

from tests.year.commits import counted
from tests.year.home import HALF_HOUR, PERIOD, Home

FIRST = int(NOT_BEFORE // DAY)
"""Number of the first day: 1 January 2026."""

BEFORE = 10
"""Number of days that feeds have kept when agents start."""

_A_DAY = DAY // HALF_HOUR
_MONTH = 30
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Events of the year, in addition to the days themselves.

    Attributes:
        days: length in days.
        epsilon: ε that a privacy unit may cost.
        unit: privacy unit: a window, so that each day has its own ε, or the device.
        cuts: power cuts that a home has in a year, on average; each is over within four hours.
        away: number of homes without power for two weeks.
        late: number of homes that join after a third of the time.
        task: day on which the fleet changes to another task, which it has signed with a new key, and the device of the
            last home is replaced; None for never.
        upgrade: day from which on all homes have a new version of the program; None for never.
        replaced: homes whose meter is replaced by one that counts from 0, in the middle.
        wrong_clocks: homes whose clock is wrong for a day in the middle: every other one behind by 400 days, or ahead.
        seed: seed of everything random.
    """

    days: int = 365
    epsilon: float = 2.0
    unit: str = "window"
    cuts: float = 6.0
    away: int = 5
    late: int = 2
    task: int | None = 135
    upgrade: int | None = 220
    replaced: int = 2
    wrong_clocks: int = 2
    seed: int = 0


@dataclass(slots=True)
class Errors:
    """Sums of absolute errors in kWh, by predictor, and the number of records."""

    total: dict[str, float] = field(default_factory=dict)
    records: int = 0

    def add(self, predicted: dict[str, NDArray[np.float64]], true: NDArray[np.float64]) -> None:
        self.records += len(true)
        for name, energies in predicted.items():
            self.total[name] = self.total.get(name, 0.0) + float(np.abs(energies - true).sum())

    def mean(self, name: str) -> float:
        return self.total[name] / self.records


@dataclass(slots=True)
class Outcome:
    """Results of a year.

    Attributes:
        months: for each thirty days, errors of forecasts of days that no one had learnt from.
        steps: private steps of each home.
        spent: largest ε that any day of each home was charged.
        bytes: size of all files of each home at the end, in bytes.
        commits: commits to the databases of each home, per day.
        messages: number of messages sent.
        cuts: number of power cuts.
        violations: requirements that did not hold; empty if all held.
    """

    months: list[Errors] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    messages: int = 0
    cuts: int = 0
    violations: list[str] = field(default_factory=list)


class Year:
    """A fleet of homes and a calendar.

    Args:
        wh: int64[homes, half hours] of whole days, -1 where nothing is known.
        directory: directory for their files.
        plan: the events of the year.
    """

    def __init__(self, wh: NDArray[np.int64], directory: Path, plan: Plan) -> None:
        self._plan = plan
        self._directory = directory
        self._random = random.Random(plan.seed)
        self._now = 0.0
        self._records = [_by_day(row) for row in wh]
        self._wh = wh
        self._counting = ExitStack()
        self._commits = self._counting.enter_context(counted())
        self._homes = [self._home(i, f"home{i:02}") for i in range(len(wh))]
        names = [home.device.id for home in self._homes]
        for home in self._homes:
            home.device.peers = tuple(name for name in names if name != home.device.id)
        self._begin(BEFORE * DAY)
        self._fleet = create_fleet(directory / "fleet", "year")
        self._heard = [0] * len(self._homes)
        self._outcome = Outcome()

    def _home(self, place: int, name: str) -> Home:
        return Home(
            name,
            self._directory / name,
            self._wh[place],
            first=FIRST,
            wall=lambda: FIRST * DAY + self._now,
            epsilon=self._plan.epsilon,
            unit=self._plan.unit,
            seed=1000 * self._plan.seed + place,
        )

    def _begin(self, at: float) -> None:
        """Begin a simulation at this many seconds of the year, for another task: messages in transit are lost."""
        self._began, devices = at, [home.device for home in self._homes]
        faults, seed = Faults(loss=0.05, delay=1.0), self._plan.seed
        self._simulation = Simulation(devices, faults=faults, period=PERIOD, seed=seed)

    def run(self) -> Outcome:
        """Play the whole year, and return its outcome."""
        with self._counting:
            outcome = self._run()
        outcome.commits = [self._commits[home.device.id] / self._plan.days for home in self._homes]
        return outcome

    def _run(self) -> Outcome:
        late = self._homes[len(self._homes) - self._plan.late :]
        away = self._homes[: self._plan.away]
        wrong = self._homes[self._plan.away : self._plan.away + self._plan.wrong_clocks]
        joined, mistaken, left = (round(self._plan.days * share) for share in (0.33, 0.52, 0.56))
        for day in range(BEFORE):
            self._listen(day + 1)
        self._now = BEFORE * DAY
        self._simulation.start()
        for home in late:
            self._cut(home)
        for day in range(BEFORE, self._plan.days):
            self._measure(day)
            if day == joined:
                for home in late:
                    self._back(home)
            if day == left:
                for home in away:
                    self._cut(home)
            if day == min(left + 14, self._plan.days - 2):
                for home in away:
                    self._back(home)
            if day == self._plan.task:
                self._change(day)
            if day == self._plan.upgrade:
                self._upgrade()
            if day == mistaken:
                for home in self._homes[: self._plan.replaced]:
                    home.replace_meter(day * _A_DAY)
            for i, home in enumerate(wrong):
                home.skew = (-1) ** (i + 1) * 400.0 * DAY if day == mistaken else 0.0
            self._day(day)
        return self._ended()

    def _day(self, day: int) -> None:
        """Play one day, from one midnight to the next."""
        cuts = [home for home in self._homes if home.up and self._random.random() < self._plan.cuts / 365]
        hours = {home.device.id: self._random.randrange(0, 20) for home in cuts}
        for hour in range(24):
            if hour == 0 or self._plan.wrong_clocks:
                self._tell()
            for home in cuts:
                if home.up and hours[home.device.id] == hour:
                    self._outcome.cuts += 1
                    self._cut(home)
                elif not home.up and hour == hours[home.device.id] + self._random.randrange(1, 4):
                    self._back(home)
            self._pass(day * DAY + (hour + 1) * _HOUR)
            if hour % 6 == 5:
                self._listen(day + (hour + 1) / 24)
        for home in cuts:
            if not home.up:
                self._back(home)

    def _pass(self, until: float) -> None:
        """Let time pass until this many seconds of the year."""
        self._now = until
        self._simulation.run_until(until - self._began)

    def _tell(self) -> None:
        """Tell each device, as a day watch does, which days are over by its own clock."""
        for home in self._homes:
            core = home.device.core
            if home.up and core is not None and home.over is not None and home.over != core.state.last_ended_window:
                self._simulation.end_window(home.device.id, home.over)

    def _listen(self, until: float) -> None:
        """Have all meters report up to this time, in days."""
        end = round(until * _A_DAY)
        for i, home in enumerate(self._homes):
            if home.up:
                home.listen(self._heard[i], end + 1)
            self._heard[i] = end + 1

    def _cut(self, home: Home) -> None:
        self._simulation.kill(home.device.id)
        home.close()

    def _change(self, day: int) -> None:
        """Change to another task, a lower clip, signed with a new fleet key; homes that are off change on return."""
        learner, data = {"name": "clipd2p", "model": "ridge", "clip": 0.4}, self._homes[0].config.data
        tables: dict[str, dict[str, Any]] = {
            "task": {"name": "a lower clip"},
            "data": {
                "features": data.features,
                "classes": data.classes,
                "transform": data.transform,
                "expected_records": data.expected_records,
                "windows": list(data.windows or ()),
            },
            "learner": learner,
            "privacy": {"epsilon": self._plan.epsilon, "unit": "window"},
        }
        before, fleet, up = self._fleet, rotate(self._directory / "fleet", 30 * DAY), self._stopped()
        begins = (FIRST + day) * DAY
        task = SignedTask(
            fleet="year", epoch=1, issued=FIRST * DAY, begins=begins, tables=tables, keys=fleet.changes
        ).sign(fleet.sign)
        stale = structs.replace(task, epoch=2, keys=(), signature="").sign(before.sign)
        up = [self._replaced() if home is self._homes[-1] else home for home in up]
        for home in self._homes:  # a home that is off learns of it on its return, and does nothing before
            home.take_up(task.encoding, before.authority)
            with suppress(TaskRefused):
                home.take_up(stale.encoding, before.authority.with_changes(fleet.changes))
                self._outcome.violations.append(f"{home.device.id}: the old key's task was taken up")
            home.start()
        self._outcome.messages += self._simulation.traffic.messages
        self._begin(self._now)
        for home in self._homes:
            if home in up:
                self._simulation.restart(home.device.id)
            else:
                home.close()
        self._tell()

    def _replaced(self) -> Home:
        """Put another device into the last home, without anything from the days before."""
        place = len(self._homes) - 1
        home = self._home(place, f"home{place:02}-again")
        home.close()
        home.device.peers = self._homes[place].device.peers
        for other in self._homes[:place]:
            other.device.peers = (*other.device.peers[:-1], home.device.id)
        self._homes[place] = home
        return home

    def _upgrade(self) -> None:
        """Stop all homes, give them files of the version before, and restart them with this version."""
        for home in self._stopped():
            home.of_the_version_before()
            self._back(home)

    def _stopped(self) -> list[Home]:
        """Stop the homes that have power, and return them; messages in transit have arrived or are lost."""
        up = [home for home in self._homes if home.up]
        for home in up:
            self._cut(home)
        self._pass(self._now + 60.0)
        return up

    def _back(self, home: Home) -> None:
        home.start()
        self._simulation.restart(home.device.id)
        self._tell()

    def _measure(self, day: int) -> None:
        """Measure the forecasts of a day that has not yet passed, by each home's own model."""
        month = (day - BEFORE) // _MONTH
        if month == len(self._outcome.months):
            self._outcome.months.append(Errors())
            self._refit(day)
        for i, home in enumerate(self._homes):
            rows = self._records[i].get(day)
            if rows is None or home.device.model is None:
                continue
            fleet = home.device.model
            models = {"fleet": fleet, "own": self._own[i], "pooled": self._pooled}
            predicted = {name: energy_kwh(rows, rows[:, :-1] @ model) for name, model in models.items()}
            predicted["persistence"] = energy_kwh(rows, np.zeros(len(rows)))
            self._outcome.months[month].add(predicted, energy_kwh(rows, rows[:, -1]))

    def _refit(self, day: int) -> None:
        """Fit least squares to all days so far: to each home's own, and to all homes' at once, which no one may see."""
        before = [
            np.vstack([rows for at, rows in home.items() if at < day] or [np.zeros((1, 10))]) for home in self._records
        ]
        self._own = [_fit(rows) for rows in before]
        self._pooled = _fit(np.vstack(before))

    def _ended(self) -> Outcome:
        outcome, last = self._outcome, FIRST + self._plan.days - 1
        outcome.messages += self._simulation.traffic.messages
        jumped = {home.device.id for home in self._homes[self._plan.away :][1 : self._plan.wrong_clocks : 2]}
        for home in self._homes:
            name = home.device.id
            core = home.device.core
            assert core is not None
            outcome.steps.append(core.state.step)
            releases = home.device.vault.spending().current.releases
            if releases != core.state.step:
                outcome.violations.append(
                    f"{name}: its state says {core.state.step} steps, its ledger {releases} releases"
                )
            outcome.bytes.append(home.size())
            home.close()
            ledger = Ledger.read(self._directory / name / LEDGER)
            spent = [ledger.epsilon_spent(Units(((day, day),))) for day in range(FIRST, last + 1)]
            ahead = ledger.epsilon_spent(Units(((last, last + 3000),)))
            audit_account(build_account(ledger))
            ledger.close()
            outcome.spent.append(max(spent))
            if max(spent) > self._plan.epsilon:
                outcome.violations.append(f"{name}: a day was charged ε = {max(spent)}")
            if self._plan.unit == "window":
                if ahead > 0 and name not in jumped:
                    outcome.violations.append(f"{name}: a day that has not been over was charged")
                if spent[-2] == 0.0:
                    outcome.violations.append(f"{name}: the last day but one was not learnt from")
        return outcome


def _by_day(wh: NDArray[np.int64]) -> dict[int, NDArray[np.float64]]:
    """The records of one home, float64[n, 10], by day, counted from the first day."""
    records = forecast_table(wh[np.newaxis], 0, HALF_HOUR, name="year", origin="year", share=0.0).dataset().records
    assert records.windows is not None
    return {int(day): records.features[records.windows == day] for day in np.unique(records.windows)}


def _fit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0].astype(np.float64)
