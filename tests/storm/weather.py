"""Draw of a fleet, and of all the faults that it meets, from a seed."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sottovoce.learning.registry import ALGORITHMS
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.options import Options

from tests.cells.liveness import BOUND
from tests.storm.extra_faults import CELL_LIARS

LEARNERS = tuple(sorted(ALGORITHMS))
_MIXINGS = ("pairwise", "push-sum", "contributions")
_MIXINGS_OF_RECORDS = ("records", "push-sum")
_LIES = ("silent", "flip", "tenfold", "noise", "zero", "labels", "giant")
_LIES_IN_MESSAGES = ("opposite", "close", "little", "late")
_INFORMED_LIES_IN_MESSAGES = ("ascent", "class", "trigger", "mimic")
_INFORMED_LIES = ("ascent-answers", "class-answers", "trigger-answers")
_BEFORE_FIRST_SUM = 4
"""Number of cycles within which most sums are finished."""
_ENDING = ("duplicate", "reorder", "partition", "kill", "clock", "disk-full")
"""Faults that end, or that a message survives."""
_LARGEST_BILLS = {"pdsl": {"learner.shapley": "monte-carlo", "learner.permutations": 3}}
"""Settings that keep the steps of a learner short."""


@dataclass(frozen=True)
class Weather:
    """One storm run.

    Attributes:
        seed: seed of all randomness of the run.
        learner: a name of the registry.
        agents: number of agents.
        cycles: number of cycles of each agent.
        topology: name of the topology.
        settings: settings by dotted key.
        faults: values of `--fault`, by kind.
        liar: name in CELL_LIARS of the last agent's lie; empty for an honest agent.
        later: settings that change in agents that restart.
        settles: cycle from which no fault begins or lasts, if the run then must have a secure sum; otherwise None.
    """

    seed: int
    learner: str
    agents: int
    cycles: int
    topology: str
    settings: Mapping[str, Any]
    faults: Mapping[str, str]
    liar: str = ""
    later: Mapping[str, Any] = field(default_factory=dict)
    settles: int | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of weather in the run."""
        beside = {"cell-liar": self.liar, "reconfigured": self.later}
        return *self.faults, *(kind for kind, value in beside.items() if value)

    @property
    def mixing(self) -> str:
        """Learner and its mixing rule, or its use of secure sums."""
        mode = self.settings.get("learner.mixing") or ("in cells" if "privacy.cell.min" in self.settings else "")
        return f"{self.learner} {mode}".strip()

    def options(self, *, later: bool = False) -> Options:
        """Return the options of the simulator; with `later`, those of a restarted agent."""
        words = [f"{kind}={value}" for kind, value in self.faults.items()]
        return Options(
            agents=self.agents,
            learner=self.learner,
            fidelity="sound",
            model=None,
            data=f"synthetic#features=3&classes=2&records={24 * self.agents}&seed={self.seed % 97}",
            transport="memory",
            epsilon=None if ALGORITHMS[self.learner].noiseless else 4.0,
            delta=1e-5,
            cycles=self.cycles,
            period=1.0,
            topology=self.topology,
            seed=self.seed,
            faults=Faults.parse(words),
            fault_specs=words,
            settings={**self.settings, **(self.later if later else {})},
        )

    def without(self, kind: str) -> "Weather":
        """Return the run without one kind of weather, and without the kinds that need it."""
        if kind == "cell-liar":
            return replace(self, liar="")
        if kind == "reconfigured":
            return replace(self, later={})
        gone = {kind, "restart"} if kind == "kill" else {kind}
        return replace(self, faults={name: value for name, value in self.faults.items() if name not in gone})


def weather(seed: int) -> Weather:
    """Draw the run of a seed."""
    fate = random.Random(seed)
    learner = LEARNERS[seed % len(LEARNERS)]
    agents, cycles = fate.randint(4, 9), fate.randint(8, 24)
    own = ALGORITHMS[learner].own_keys
    settings: dict[str, Any] = dict(_LARGEST_BILLS.get(learner, {}))
    if "contributors" in own:
        settings["learner.mixing"] = fate.choice(_MIXINGS)
    elif "mixing" in own:
        settings["learner.mixing"] = fate.choice(_MIXINGS_OF_RECORDS)
    if "fanout" in own:
        settings["learner.fanout"] = fate.choice((1, 1, 2, 3))
    if "sampling" in own and fate.random() < 0.3:
        settings |= {"learner.sampling": "poisson", "learner.batch": 4}
    if ALGORITHMS[learner].secure_sums == "always":
        settings["privacy.cell.min"] = agents // 2 + 1
    if learner != "average" and fate.random() < 0.3:
        settings["data.partition"] = "dirichlet(1)"
    topology = fate.choice(("full", "ring", "exponential", "star"))
    faults = {kind: make(fate, cycles) for kind, make in _FAULTS.items() if fate.random() < 0.4}
    if "kill" in faults and fate.random() < 0.8:
        faults["restart"] = f"{fate.choice(('0.5', '1'))}@cycle:{fate.randint(cycles - 3, cycles)}"
    if "contributors" in own and fate.random() < 0.3:
        faults["dishonest"] = f"{fate.choice(('0.25', '0.34'))}@{fate.choice(_LIES)}"
    return _newer(Weather(seed, learner, agents, cycles, topology, settings, faults))


def _newer(drawn: Weather) -> Weather:
    """Add faults that the storm gained later: of members, clocks and disks, from a separate generator."""
    fate, own = random.Random(f"newer {drawn.seed}"), ALGORITHMS[drawn.learner].own_keys
    settings, faults = dict(drawn.settings), dict(drawn.faults)
    if drawn.learner == "average" and fate.random() < 0.5:
        settings |= {"privacy.noise": "cell", "privacy.cell.min": drawn.agents // 2 + 1}
    secure_sums = "privacy.cell.min" in settings
    if settings.get("learner.mixing") in ("pairwise", "contributions") and fate.random() < 0.3:
        faults["dishonest"] = f"{fate.choice(('0.25', '0.34'))}@{fate.choice(_LIES_IN_MESSAGES)}"
    informed = random.Random(f"informed {drawn.seed}")
    if "contributors" in own and informed.random() < 0.3:
        by_messages = settings["learner.mixing"] != "push-sum" and informed.random() < 0.7
        lie = informed.choice(_INFORMED_LIES_IN_MESSAGES if by_messages else _INFORMED_LIES)
        faults["dishonest"] = f"{informed.choice(('0.25', '0.34'))}@{lie}"
    first = _BEFORE_FIRST_SUM if secure_sums and fate.random() < 0.7 else drawn.cycles - 4
    faults |= {kind: make(fate, drawn.cycles, first) for kind, make in _NEWER.items() if fate.random() < 0.2}
    liar = ""
    if secure_sums and fate.random() < 0.5:
        settings["privacy.cell.min"] = max(4, settings["privacy.cell.min"])
        liar = fate.choice(sorted(CELL_LIARS))
    later: dict[str, Any] = {}
    comes_back = "restart" in faults or "churn" in faults
    if comes_back and fate.random() < 0.5:
        later = {key: fate.choice(values) for key, values in _OF_A_DEVICE.items() if key.partition(".")[2] in own}
    topology = "full" if secure_sums else drawn.topology
    drawn = replace(drawn, topology=topology, settings=settings, faults=faults, liar=liar, later=later)
    return _settling(drawn) if drawn.learner == "average" and secure_sums else drawn


def _settling(drawn: Weather) -> Weather:
    """Return half of these runs with only such faults as end, and then as many cycles as a secure sum may take."""
    fate = random.Random(f"settles {drawn.seed}")
    if fate.random() < 0.5:
        return drawn
    faults = {kind: value for kind, value in drawn.faults.items() if kind in _ENDING and fate.random() < 0.8}
    if "delay" in drawn.faults:
        faults["delay"] = "400ms±400ms"
    if fate.random() < 0.6:  # a part of the fleet starts later
        faults |= {"kill": f"{fate.choice(('0.25', '0.5'))}@cycle:1"}
    if "kill" in faults:
        killed = int(faults["kill"].rpartition(":")[2])
        faults["restart"] = f"1@cycle:{killed + fate.randint(1, 60)}"
    ends = [int(re.split("[:-]", value)[-1]) for value in faults.values() if "@cycle:" in value]
    settles = max(ends, default=1)
    settings = {**drawn.settings, "privacy.cell.spare": 4}
    return replace(
        drawn, cycles=settles + BOUND + 5, faults=faults, settings=settings, liar="", later={}, settles=settles
    )


def _share(fate: random.Random, most: float) -> str:
    return f"{fate.uniform(0, most):.2f}"


def _moments(fate: random.Random, cycles: int, first: int | None = None) -> str:
    begins = fate.randint(1, first or cycles - 4)
    return f"{begins}-{fate.randint(begins + 1, cycles)}"


_FAULTS: dict[str, Callable[[random.Random, int], str]] = {
    "loss": lambda fate, _: _share(fate, 0.6),
    "duplicate": lambda fate, _: _share(fate, 1.0),
    "delay": lambda fate, _: f"{(mean := fate.choice((50, 400, 3000)))}ms±{fate.randint(0, mean)}ms",
    "reorder": lambda fate, _: _share(fate, 0.8),
    "partition": lambda fate, cycles: f"{fate.choice(('0.25', '0.5'))}@cycle:{_moments(fate, cycles)}",
    "kill": lambda fate, cycles: f"{fate.choice(('0.25', '0.5', '0.9'))}@cycle:{fate.randint(1, cycles - 4)}",
    "vault": lambda fate, _: f"{(mean := fate.choice((300, 2500)))}ms±{fate.randint(0, mean)}ms",
    "churn": lambda fate, _: f"lognormal({fate.choice((1, 2))},{fate.choice((0.5, 1))})",
}


_NEWER: dict[str, Callable[[random.Random, int, int], str]] = {
    "revoke": lambda fate, _, first: f"{fate.choice(('0.13', '0.25', '0.34'))}@cycle:{fate.randint(1, first)}",
    "renew": lambda fate, _, __: str(fate.randint(3, 9)),
    "clock": lambda fate, cycles, first: f"{fate.choice(('0.25', '0.5'))}@cycle:{_moments(fate, cycles, first)}",
    "disk-full": lambda fate, cycles, first: f"{fate.choice(('0.25', '0.5'))}@cycle:{_moments(fate, cycles, first)}",
}
_OF_A_DEVICE: Mapping[str, tuple[Any, ...]] = {
    "learner.fanout": (1, 2, 3),
    "learner.share_bits": (16, 24, 40),
    "learner.longest_period": (1.0, 2.0, 4.0),
    "learner.deadline": (1.0, 2.0, 10.0),
}
"""Settings that each device may choose for itself, whatever its fleet's task."""
