"""The testbed's options, and the agent configuration that follows from them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from sottovoce.config import (
    AgentConfig,
    AgentSection,
    CellSection,
    DataSection,
    LedgerSection,
    MembershipSection,
    MqttSection,
    PrivacySection,
    TransportSection,
    config_from_tables,
    learner_settings,
)
from sottovoce.errors import ConfigError, PrivacyError, UsageError
from sottovoce.kernels.onnx.allowlist import graph_digest
from sottovoce.learning.model_names import GRAPH_SUFFIX
from sottovoce.learning.registry import ALGORITHMS, Algorithm, foreign_key_error, loaded_algorithms, unknown_name_hint
from sottovoce.learning.settings import LearnerSettings
from sottovoce.privacy.vault import Budget
from sottovoce.suggestions import suggest_name

from sottovoce_lab.simulator import NEWSCAST, Faults, check_topology
from sottovoce_lab.testbed.assignments import parse_assignments
from sottovoce_lab.testbed.isolation import DEFAULT as ISOLATION, Isolation

_UNLIMITED = 2**50  # the largest write quota
_QUOTAS = ("agent.bytes_per_day", "ledger.bytes_per_day")
_SECTIONS: dict[str, type[Struct]] = {
    "agent": AgentSection,
    "data": DataSection,
    "ledger": LedgerSection,
    "membership": MembershipSection,
    "privacy": PrivacySection,
    "privacy.cell": CellSection,
    "transport": TransportSection,
    "transport.mqtt": MqttSection,
}
_OPTIONS = {
    **{name: f"--{name}" for name in ("agents", "cycles", "period", "seed", "topology", "noise", "transport")},
    **{name: f"--{name.rpartition('.')[2]}" for name in ("learner.fidelity", "learner.model", "learner.period")},
    **{name: f"--{name.rpartition('.')[2]}" for name in ("privacy.epsilon", "privacy.delta", "fidelity", "model")},
    "epsilon": "--epsilon",
    "delta": "--delta",
    "data": "--data",
    "data.source": "--data",
    "learner": "--learner",
    "learner.name": "--learner",
    "membership.sampling": "--topology",
    "transport.use": "--transport",
}
"""The testbed's options, by the keys that users may try to set with `--set` instead."""
_SYNONYMS = {"lr": "step_size", "learning_rate": "step_size", "batch_size": "batch", "epochs": "steps"}
"""Names that other programs use for keys, and the names used here."""
_TESTBED_KEYS = {"data.partition", "data.validation", "privacy.allow_unproved", "testbed.directory"}
_LEARNER_PREFIX = "learner."
_SET_BY_TESTBED = {
    *("agent.state", "agent.readers_socket", "agent.log_format"),
    *("data.source", "data.ranges", "data.features", "data.classes"),
    *("learner.name", "learner.fidelity", "learner.model", "learner.period", "learner.begins_walk"),
    *("membership.sampling", "privacy.epsilon", "privacy.delta", "transport.listen", "transport.peers"),
    *("transport.use", "transport.mqtt", "transport.mqtt.realm"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """The command-line options for `sottovoce testbed`, after checking.

    Attributes:
        agents: the number of agents.
        learner: the learner's name, a key in sottovoce.learning.registry.ALGORITHMS.
        fidelity: `sound`, or `paper` for the algorithm exactly as published.
        model: the model's name, or a file name that ends in `.onnx`; None for the learner's default.
        data: a data SPEC.
        transport: `grpc` or `mqtt` (processes), `mixed` (processes; two in ten have both transports, all others have
            one), or `memory` (one process, virtual clock).
        epsilon: total ε; None for the noiseless baseline.
        delta: total δ.
        cycles: number of cycles per agent.
        fits_steps: whether plan() adds cycles if the learner's steps need more.
        first_cycles: number of cycles before the first gradient, as plan() finds it.
        period: seconds between cycles.
        topology: name of a topology that sottovoce_lab.simulator.out_peers accepts.
        seed: seed for the partition, the hold-out and the simulated network; real noise has no seed.
        faults: the faults to inject.
        fault_specs: the fault specifications, as the user wrote them.
        settings: the rest of the configuration, by dotted key.
        isolate: how to start processes; None for the platform's default.
    """

    agents: int
    learner: str
    fidelity: str
    model: str | None
    data: str
    transport: str
    epsilon: float | None
    delta: float
    cycles: int
    period: float
    topology: str
    seed: int
    faults: Faults
    fault_specs: list[str]
    settings: dict[str, Any]
    isolate: Isolation | None = None
    fits_steps: bool = False
    first_cycles: int = 0

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise UsageError(f"--agents {self.agents}: a fleet needs at least one agent")
        if self.cycles < 1:
            raise UsageError(f"--cycles {self.cycles}: run at least one cycle")
        if not 0.001 <= self.period <= 3600:
            raise UsageError(f"--period {self.period:g}: choose 0.001 to 3600 seconds")
        if self.isolate is not None and self.transport == "memory":
            raise UsageError(f"--isolate {self.isolate}: --transport memory uses one process; omit --isolate")
        check_topology(self.topology)
        if self.topology == NEWSCAST and self.transport == "memory":
            raise UsageError("--topology newscast samples peers over real sockets: use --transport grpc")
        if self.topology != NEWSCAST and self.transport == "mixed":
            raise UsageError(
                "--transport mixed: not every agent can reach every other agent, so peers must be sampled: use "
                "--topology newscast and a learner that does not need a graph, such as clipd2p"
            )
        runs_own_broker = self.transport in ("mqtt", "mixed") and self.broker is None
        if self.faults.broker_kill is not None and not runs_own_broker:
            raise UsageError(
                "--fault broker-kill=… requires --transport mqtt or mixed, and a broker that the testbed runs itself"
            )
        if self.faults.dishonest is not None and self.transport != "memory":
            raise UsageError("--fault dishonest=…: only simulated devices can be dishonest: use --transport memory")
        if self.faults.vault and self.transport != "memory":
            raise UsageError("--fault vault=…: vault delays can only be simulated: use --transport memory")
        if (members := self.faults.member_faults) and self.transport != "memory":
            raise UsageError(f"--fault {members[0]}=… affects only simulated agents: use --transport memory")
        if self.epsilon is not None and not self.epsilon > 0:
            raise UsageError(f"--epsilon {self.epsilon:g}: choose a positive number, or inf for no noise")
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta {self.delta:g}: choose a number between 0 and 1, for example 1e-5")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: choose 0 or more")
        is_allowed = self.allows_unproved
        self.faults.check(self.agents, self.cycles)
        if self.learner not in ALGORITHMS:
            raise UsageError(f"--learner {self.learner}: unknown learner; {unknown_name_hint(self.learner)}")
        for key in self.settings:
            table, _, name = key.partition(".")
            if table == "learner" and (problem := foreign_key_error(self.learner, name)) is not None:
                raise ConfigError(problem)
        if self.model is not None and (problem := self.algorithm.find_model_problem(self.model)) is not None:
            raise UsageError(f"--model {self.model}: {problem}")
        if self.is_unproved and self.epsilon is not None and not is_allowed:
            raise PrivacyError(
                f"--learner {self.learner} --fidelity paper: no ε is proved for the paper's variant: omit "
                "--fidelity, use --epsilon inf, or add --set privacy.allow_unproved=true to run it anyway"
            )
        if self.uses_training_ranges and self.epsilon is not None and not is_allowed:
            raise PrivacyError(
                "--fidelity paper scales features by the training set's own ranges, a release charged to no budget, "
                "so no ε holds: declare ranges with --set data.bounds=[LOW,HIGH], use --epsilon inf, or add "
                "--set privacy.allow_unproved=true to run it anyway"
            )
        if self.algorithm.noiseless and self.epsilon is not None and not is_allowed:
            raise PrivacyError(
                f"--learner {self.learner} adds no noise, so it cannot guarantee any ε: use --learner clipd2p, or "
                "--epsilon inf, or --set privacy.allow_unproved=true to run it anyway"
            )
        _ = self.budget  # raises an error if the budget promises nothing

    @property
    def algorithm(self) -> Algorithm:
        """The learner's registry entry."""
        return ALGORITHMS[self.learner]

    @property
    def is_noiseless(self) -> bool:
        """Whether the run adds no noise, and therefore promises no privacy."""
        return self.epsilon is None or self.algorithm.noiseless

    @property
    def allows_unproved(self) -> bool:
        """Whether the user allows a run for which no ε holds; only the TOML value true does, not text such as `no`."""
        return self.settings.get("privacy.allow_unproved") is True

    @property
    def is_unproved(self) -> bool:
        """Whether no ε is proved for the learner: with fidelity `paper`, or with a mechanism from another package."""
        if self.fidelity == "paper" and self.algorithm.paper_status is None:
            return False  # such a learner is rejected elsewhere
        return self.learner_settings.is_unproved

    @property
    def uses_training_ranges(self) -> bool:
        """Whether features are scaled by the training set's own ranges, as in the paper; no ε holds in this case."""
        is_scaled = self.fidelity == "paper" and self.algorithm.scaled_by_training
        return is_scaled and "data.bounds" not in self.settings

    @property
    def budget(self) -> Budget:
        """The budget per privacy unit."""
        promised = None if self.is_noiseless or self.uses_training_ranges or self.is_unproved else self.epsilon
        neighbouring = str(self.settings.get("privacy.neighbouring", self._relation))
        unit = str(self.settings.get("privacy.unit", self.algorithm.unit))
        return Budget(promised, self.delta, unit, neighbouring)

    @property
    def _relation(self) -> str:
        """The learner's neighbouring relation, which may depend on its settings."""
        algorithm = self.algorithm
        if algorithm.relation is None:
            return algorithm.neighbouring
        return algorithm.resolve_relation(self.learner_settings)

    @property
    def learner_settings(self) -> LearnerSettings:
        """The learner's settings, from the keys that the user set."""
        values = {
            key.removeprefix(_LEARNER_PREFIX): value
            for key, value in self.settings.items()
            if key.startswith(_LEARNER_PREFIX)
        }
        return learner_settings({"name": self.learner, "fidelity": self.fidelity, **values}, "--set")

    @property
    def partition(self) -> str:
        """How the records are distributed among the agents."""
        default = "iid"
        if self.data.startswith("meters:"):
            default = "one-group" if "task=days" in self.data else "one-record"
        return str(self.settings.get("data.partition", default))

    @property
    def broker(self) -> str | None:
        """The URL of a broker that the user runs; None if there is none."""
        url = self.settings.get("transport.mqtt.url")
        return None if url is None else str(url)

    def agent_transports(self, index: int) -> tuple[Literal["grpc", "mqtt"], ...]:
        """Return an agent's transports. With `mixed`, the first agents have both because they seed all others."""
        match self.transport:
            case "mqtt":
                return ("mqtt",)
            case "mixed" if index < max(1, round(self.agents / 5)):
                return ("grpc", "mqtt")
            case "mixed" if index % 2:
                return ("mqtt",)
            case _:
                return ("grpc",)

    @property
    def isolation(self) -> Isolation:
        """How processes are started."""
        return self.isolate or ISOLATION

    @property
    def directory(self) -> Path | None:
        """The directory for a fleet that the user wants to keep; None for a temporary directory."""
        value = self.settings.get("testbed.directory")
        return None if value is None else Path(str(value))

    @property
    def steps(self) -> int:
        """The default number of private releases, which leaves the last cycles for mixing.

        The last fifth of the cycles is for mixing; in large fleets, up to two fifths are. A secure sum takes two or
        three cycles and needs no mixing afterwards.
        """
        if self.algorithm.secure_sums == "always":
            return max(1, (self.cycles - self.first_cycles) // 3)
        cycles = self.cycles - self.first_cycles
        mixing = max(cycles // 5, min(2 * self.agents.bit_length(), cycles * 2 // 5))
        return max(1, cycles - mixing)

    @property
    def lifted_quotas(self) -> tuple[str, ...]:
        """The keys of the write quotas that a device has and this run's agents do not."""
        return tuple(key for key in _QUOTAS if key not in self.settings) if self.transport != "memory" else ()

    @property
    def _file(self) -> Path | None:
        """The graph file that the user specified as the model, which also allows it; None for any other model."""
        is_file = self.model is not None and self.model.endswith(GRAPH_SUFFIX)
        return Path(self.model).expanduser().absolute() if is_file and self.model else None

    @property
    def _defaults(self) -> dict[str, Any]:
        """The defaults for a short run, which the command line overrides."""
        pace = {"steps": self.steps, "longest_period": self.period}  # a run is finite, and is measured at its end
        learner_keys = self.algorithm.own_keys
        defaults: dict[str, Any] = {f"learner.{key}": value for key, value in pace.items() if key in learner_keys}
        defaults["membership.period"] = max(0.05, self.period)
        defaults |= dict.fromkeys(_QUOTAS, _UNLIMITED)
        if not self.algorithm.predicts:
            defaults["data.transform"] = "none"
        return {**defaults, "data.transform": "squash(1)"} if self.uses_training_ranges else defaults

    def configuration(self, **sections: dict[str, Any]) -> AgentConfig:
        """Build an agent's configuration from these tables, the command line, which overrides them, and the defaults.

        Raises:
            ConfigError: if a value is invalid; the message names its key.
        """
        tables: dict[str, dict[str, Any]] = {name: dict(values) for name, values in sections.items()}
        fixed_tables = {
            "data.ranges": "training" if self.uses_training_ranges else "declared",
            "learner.name": self.learner,
            "learner.fidelity": self.fidelity,
            "learner.model": self.model if self._file is None else str(self._file),
            "vault.graphs": [] if self._file is None else [graph_digest(str(self._file))],
            "learner.period": self.period,
            "membership.sampling": "newscast" if self.topology == NEWSCAST else "static",
            "privacy.epsilon": float("inf") if self.is_noiseless else self.epsilon,
            "privacy.delta": self.delta,
            "privacy.allow_unproved": self.allows_unproved,
        }
        configured = {key: value for key, value in self.settings.items() if key not in _TESTBED_KEYS}
        for key, value in {**self._defaults, **configured, **fixed_tables}.items():
            *path, name = key.split(".")
            table: dict[str, Any] = tables
            for part in path:
                table = table.setdefault(part, {})
            table[name] = value
        return config_from_tables(tables, "--set")


def learner_topology(learner: str) -> str:
    """Return a learner's default topology, or `exponential` for an unknown name, which is rejected elsewhere."""
    return ALGORITHMS[learner].topology if learner in ALGORITHMS else "exponential"


def parse_settings(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse dotted keys and TOML values from `--set KEY=VALUE`.

    Raises:
        UsageError: if text is not an assignment, or a key is unknown or has its own option.
    """
    values = parse_assignments(assignments, "learner.clip=0.5")
    for key in values:
        check_key(key, "--set")
    return values


def check_key(key: str, origin: str) -> None:
    """Check that a configuration key is known and may be set here.

    Raises:
        UsageError: if the key is unknown, has its own option, or is set by the testbed; the message has a remedy.
    """
    known = {f"{table}.{name}" for table, section in _SECTIONS.items() for name in section.__struct_fields__}
    known |= {f"{_LEARNER_PREFIX}{name}" for algorithm in loaded_algorithms().values() for name in algorithm.own_keys}
    known = (known - _SET_BY_TESTBED) | _TESTBED_KEYS
    if (option := _OPTIONS.get(key)) is not None:
        raise UsageError(f"{origin} {key}: use the option {option} instead")
    if key in _SET_BY_TESTBED:
        raise UsageError(f"{origin} {key}: the testbed sets this key itself; omit it")
    if key not in known:
        raise UsageError(f"{origin} {key}: unknown key. {_hint(key, known)}")


def _hint(key: str, known: Collection[str]) -> str:
    """Return a hint on how to correct an unknown key."""
    table, _, name = key.rpartition(".")
    actual_name = _SYNONYMS.get(name, name)
    if nearest := suggest_name(f"{table}.{actual_name}" if table else actual_name, known):
        return f"Did you mean `{nearest}`?"
    if keys := sorted(known_key for known_key in known if known_key.rpartition(".")[0] == table):
        return f"Keys of `{table}` are {', '.join(known_key.rpartition('.')[2] for known_key in keys)}."
    tables = sorted({known_key.rpartition(".")[0] for known_key in known})
    return f"Put a table name before the key: one of {', '.join(tables)}."
