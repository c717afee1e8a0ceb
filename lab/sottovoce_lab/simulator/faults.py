"""Parser for `--fault` specifications: faults of the network, of agents and of the broker.

loss=P                        each message and each confirmation is lost with probability P
duplicate=P                   each message arrives twice with probability P
delay=MEAN±SPREAD             the delay of a message is uniform in MEAN±SPREAD, as in 50ms±20ms; SPREAD is at most MEAN
                              and may be omitted
reorder=P                     each message is held back with probability P, so later messages can overtake it
partition=SHARE@cycle:A-B     from cycle A until cycle B, a share of the agents is cut off from the others
kill=P@cycle:N                a share P of the agents is killed (kill -9) when the fleet reaches cycle N
restart=P@cycle:N             a share P of the killed agents restarts from its stored state at cycle N
churn=lognormal(MU,SIGMA)     agents crash and restart after sessions of log-normal length in cycles; 90 % are online
churn=trace:FILE              agents crash and restart as listed in a trace with lines `agent,down_cycle,up_cycle`,
                              where agents are numbered from 0
broker-kill=TIME@cycle:N      the testbed's MQTT broker is killed (kill -9) at cycle N and restarts after TIME, as in 3s
vault=MEAN±SPREAD             the delay of each vault answer is uniform in MEAN±SPREAD, with the same syntax as `delay`
dishonest=SHARE@WHAT          a share of the agents (the last ones) is dishonest from the start; see simulator.dishonest
revoke=SHARE@cycle:N          the fleet revokes a share of the agents (the last ones) at cycle N; the others are
                              notified within three cycles. An honest agent that is notified of its own revocation
                              stops permanently
renew=CYCLES                  certificates are valid for CYCLES (at least 3), and are renewed after two thirds of that
clock=SHARE@cycle:A-B         from cycle A until cycle B, the wall clocks of a share of the agents are wrong by months
disk-full=SHARE@cycle:A-B     from cycle A until cycle B, a share of the agents can write neither state nor ledger

Each fault may be specified at most once; cycles are numbered from 1.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.suggestions import suggest_name

from sottovoce_lab.simulator.absences import Absence, read_absences

_KINDS = {
    "loss": "loss=0.3",
    "duplicate": "duplicate=0.05",
    "delay": "delay=50ms±20ms",
    "reorder": "reorder=0.2",
    "partition": "partition=0.5@cycle:10-20",
    "kill": "kill=0.33@cycle:20",
    "restart": "restart=1@cycle:30",
    "churn": "churn=lognormal(2,1)",
    "broker-kill": "broker-kill=3s@cycle:20",
    "vault": "vault=2s±1s",
    "dishonest": "dishonest=0.25@flip",
    "revoke": "revoke=0.1@cycle:20",
    "renew": "renew=9",
    "clock": "clock=0.25@cycle:10-20",
    "disk-full": "disk-full=0.25@cycle:10-20",
}
LIES = (
    *("silent", "flip", "tenfold", "noise", "zero", "labels", "giant"),
    *("ascent-answers", "class-answers", "trigger-answers"),
    *("opposite", "close", "little", "late", "ascent", "class", "trigger", "mimic"),
)
"""The lies that dishonest agents support."""

MIN_RENEWED = 3
"""Minimum certificate lifetime in cycles, which lets a device that is down for one cycle still renew in time."""

_MESSAGE_FAULTS = {"loss", "duplicate", "delay", "reorder", "partition"}
_DURATION = r"([0-9]+(?:\.[0-9]+)?)(ms|s)"
_CYCLE = r"([0-9]*[1-9][0-9]*)"
_PROBABILITY = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e-[0-9]+)?"
_LARGEST_MU, _LARGEST_SIGMA = 10.0, 4.0


@dataclass(frozen=True, slots=True)
class CycleEvent:
    """An event that affects a share of the agents at one cycle."""

    share: float
    cycle: int


@dataclass(frozen=True, slots=True)
class CycleSpan:
    """A fault that affects a share of the agents from `first_cycle` until `end_cycle`."""

    share: float
    first_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage that begins at a cycle and lasts for `seconds`."""

    seconds: float
    cycle: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """Online sessions of log-normal length in cycles, where `mu` and `sigma` are the parameters of the log length."""

    mu: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Dishonesty:
    """The share of dishonest agents, and their lie, one of LIES."""

    share: float
    lie: str

    def count_among(self, agents: int) -> int:
        """Return the number of dishonest agents in a fleet of this size."""
        return round(self.share * agents)


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults in a run. Probabilities are between 0 and 1, and times are in seconds."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    delay_spread: float = 0.0
    reorder: float = 0.0
    partition: CycleSpan | None = None
    kill: CycleEvent | None = None
    restart: CycleEvent | None = None
    churn: Sessions | tuple[Absence, ...] | None = None
    broker_kill: Outage | None = None
    vault: float = 0.0
    vault_spread: float = 0.0
    dishonest: Dishonesty | None = None
    revoke: CycleEvent | None = None
    renew: int | None = None
    clock: CycleSpan | None = None
    disk_full: CycleSpan | None = None

    @property
    def member_faults(self) -> tuple[str, ...]:
        """The requested faults of certificates, clocks and disks, which can be injected only into simulated agents."""
        faults = {"revoke": self.revoke, "renew": self.renew, "clock": self.clock, "disk-full": self.disk_full}
        return tuple(kind for kind, value in faults.items() if value is not None)

    @property
    def affects_messages(self) -> bool:
        """Whether any of the requested faults affects messages."""
        return bool(self.loss or self.duplicate or self.delay or self.reorder or self.partition)

    def has_faults_besides(self, *kinds: str) -> bool:
        """Return whether any fault other than those in `kinds` (attribute names) is set."""
        defaults = Faults()
        return any(
            getattr(self, field.name) != getattr(defaults, field.name)
            for field in fields(self)
            if field.name not in kinds
        )

    @classmethod
    def parse(cls, specifications: Sequence[str]) -> "Faults":
        """Parse `--fault` specifications, and read the churn trace if there is one.

        Raises:
            UsageError: if a specification is malformed or repeated, or `restart` has no earlier `kill`; the message
                shows a correct example.
        """
        faults = cls()
        for specification in specifications:
            faults = replace(faults, **_parse(specification))
        kinds = [_kind(specification) for specification in specifications]
        if repeated := [kind for kind in kinds if kinds.count(kind) > 1]:
            raise UsageError(
                f"--fault {repeated[0]}=… is specified more than once; specify it once, like {_KINDS[repeated[0]]}"
            )
        if faults.restart and (not faults.kill or faults.restart.cycle < faults.kill.cycle):
            raise UsageError(
                "--fault restart=… needs a --fault kill=… at the same or an earlier cycle; otherwise there is "
                f"no agent to restart; for example, --fault {_KINDS['kill']} --fault {_KINDS['restart']}"
            )
        return faults

    def check(self, agents: int, cycles: int) -> None:
        """Check that a run with this many agents and cycles can contain every fault.

        Raises:
            UsageError: if a fault does not fit the run; the message states the number of agents or cycles.
        """
        events = (self.kill, self.restart, self.broker_kill, self.revoke)
        last_cycles = [event.cycle for event in events if event is not None]
        last_cycles += [span.end_cycle for span in (self.partition, self.clock, self.disk_full) if span is not None]
        if late := [cycle for cycle in last_cycles if cycle > cycles]:
            raise UsageError(
                f"--fault …@cycle:{late[0]}: the run has only {cycles} cycles; choose an earlier cycle or a longer run"
            )
        if self.partition is not None and not 1 <= round(self.partition.share * agents) < agents:
            raise UsageError(
                f"--fault partition={self.partition.share:g}@…: for {agents} agents, this share puts all agents on "
                "one side; choose a share that leaves at least one agent on each side"
            )
        if self.dishonest is not None and not 1 <= self.dishonest.count_among(agents) < agents:
            raise UsageError(
                f"--fault dishonest={self.dishonest.share:g}@…: for {agents} agents, this share makes no agent, or "
                "every agent, dishonest; choose a share with at least one agent of each kind"
            )
        absences = self.churn if isinstance(self.churn, tuple) else ()
        if unknown := [absence.agent for absence in absences if absence.agent >= agents]:
            raise UsageError(
                f"--fault churn=trace:…: there is no agent {unknown[0]} among {agents} agents, which are numbered from "
                "0; increase --agents or shorten the trace"
            )


def message_faults(specifications: Sequence[str]) -> list[str]:
    """Return only those specifications whose faults affect messages."""
    return [specification for specification in specifications if _kind(specification) in _MESSAGE_FAULTS]


def _kind(specification: str) -> str:
    return specification.partition("=")[0]


def _parse(specification: str) -> Mapping[str, Any]:
    kind, _, value = specification.partition("=")
    if kind not in _KINDS:
        nearest = suggest_name(kind, _KINDS)
        forms = [_KINDS[nearest]] if nearest else _KINDS.values()
        raise UsageError(f"--fault {specification}: unknown fault `{kind}`; write it like {', '.join(forms)}")

    def usage_error(reason: str = "") -> UsageError:
        separator = "; " if reason else ""
        return UsageError(f"--fault {specification}: {reason}{separator}write it like {_KINDS[kind]}")

    return _PARSERS[kind](value, usage_error)


ErrorFactory = Callable[..., UsageError]


def _parse_loss(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    if (probability := _parse_share(value, usage_error)) == 1:
        raise usage_error("the probability must be below 1, because agents that receive no messages learn nothing")
    return {"loss": probability}


def _parse_delay(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    mean, spread = _parse_mean_spread(value, usage_error, "a message cannot arrive before it is sent")
    return {"delay": mean, "delay_spread": spread}


def _parse_vault(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    mean, spread = _parse_mean_spread(value, usage_error, "a vault cannot answer before it is asked")
    return {"vault": mean, "vault_spread": spread}


def _parse_mean_spread(value: str, usage_error: ErrorFactory, reason: str) -> tuple[float, float]:
    """Parse MEAN±SPREAD, and return the mean and the maximum deviation in either direction, both in seconds."""
    match = re.fullmatch(rf"{_DURATION}(?:(?:±|\+-){_DURATION})?", value)
    if not match:
        raise usage_error()
    mean, spread = _seconds(match[1], match[2]), _seconds(match[3] or "0", match[4] or "s")
    if spread > mean:
        raise usage_error(f"the spread must not exceed the mean, because {reason}")
    return mean, spread


def _parse_cycle_span(value: str, usage_error: ErrorFactory) -> CycleSpan:
    match = re.fullmatch(rf"([^@]+)@cycle:{_CYCLE}-{_CYCLE}", value)
    if not match:
        raise usage_error()
    span = CycleSpan(_parse_share(match[1], usage_error), int(match[2]), int(match[3]))
    if span.end_cycle <= span.first_cycle:
        raise usage_error("the last cycle must be greater than the first")
    return span


def _parse_renew(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    if not re.fullmatch(_CYCLE, value) or int(value) < MIN_RENEWED:
        raise usage_error(f"a certificate must be valid for at least {MIN_RENEWED} cycles")
    return {"renew": int(value)}


def _parse_cycle_event(value: str, usage_error: ErrorFactory) -> CycleEvent:
    share, _, moment = value.partition("@")
    probability, match = _parse_share(share, usage_error), re.fullmatch(rf"cycle:{_CYCLE}", moment)
    if not match:
        raise usage_error()
    return CycleEvent(probability, int(match[1]))


def _parse_broker_kill(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    match = re.fullmatch(rf"{_DURATION}@cycle:{_CYCLE}", value)
    if not match:
        raise usage_error()
    return {"broker_kill": Outage(_seconds(match[1], match[2]), int(match[3]))}


def _parse_dishonest(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    share, _, lie = value.partition("@")
    if lie not in LIES:
        raise usage_error(f"the lie must be one of {', '.join(LIES)}")
    return {"dishonest": Dishonesty(_parse_share(share, usage_error), lie)}


def _parse_churn(value: str, usage_error: ErrorFactory) -> Mapping[str, Any]:
    if value.startswith("trace:") and len(value) > len("trace:"):
        return {"churn": read_absences(Path(value.removeprefix("trace:")))}
    match = re.fullmatch(r"lognormal\(([0-9]+(?:\.[0-9]+)?), ?([0-9]+(?:\.[0-9]+)?)\)", value)
    if not match:
        raise usage_error("the churn must be trace:FILE or lognormal(MU,SIGMA)")
    sessions = Sessions(float(match[1]), float(match[2]))
    if sessions.mu > _LARGEST_MU or sessions.sigma > _LARGEST_SIGMA:
        raise usage_error(f"MU must be at most {_LARGEST_MU:g} and SIGMA at most {_LARGEST_SIGMA:g}")
    return {"churn": sessions}


_PARSERS: dict[str, Callable[[str, ErrorFactory], Mapping[str, Any]]] = {
    "loss": _parse_loss,
    "duplicate": lambda value, usage_error: {"duplicate": _parse_share(value, usage_error)},
    "delay": _parse_delay,
    "vault": _parse_vault,
    "reorder": lambda value, usage_error: {"reorder": _parse_share(value, usage_error)},
    "partition": lambda value, usage_error: {"partition": _parse_cycle_span(value, usage_error)},
    "kill": lambda value, usage_error: {"kill": _parse_cycle_event(value, usage_error)},
    "restart": lambda value, usage_error: {"restart": _parse_cycle_event(value, usage_error)},
    "churn": _parse_churn,
    "broker-kill": _parse_broker_kill,
    "dishonest": _parse_dishonest,
    "revoke": lambda value, usage_error: {"revoke": _parse_cycle_event(value, usage_error)},
    "renew": _parse_renew,
    "clock": lambda value, usage_error: {"clock": _parse_cycle_span(value, usage_error)},
    "disk-full": lambda value, usage_error: {"disk_full": _parse_cycle_span(value, usage_error)},
}


def _parse_share(text: str, usage_error: ErrorFactory) -> float:
    if not re.fullmatch(_PROBABILITY, text) or not 0 <= float(text) <= 1:
        raise usage_error(f"{text!r} is not a number from 0 to 1")
    return float(text)


def _seconds(number: str, unit: str) -> float:
    return float(number) * (0.001 if unit == "ms" else 1.0)
