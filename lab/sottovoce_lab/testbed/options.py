"""Options of the testbed, and the configuration that follows from them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from sottovoce.assignments import parse_assignments
from sottovoce.config import (
    AgentConfig,
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
from sottovoce.kernels.onnx.allowed import digest_of
from sottovoce.learner_settings import LearnerSettings
from sottovoce.model_names import GRAPH_SUFFIX
from sottovoce.registry import ALGORITHMS, Algorithm, foreign_key_error, loaded_algorithms, unknown_name_hint
from sottovoce.suggestions import suggestion
from sottovoce.vault import Budget

from sottovoce_lab.simulator import NEWSCAST, Faults, check_topology
from sottovoce_lab.testbed.isolation import DEFAULT as ISOLATION
from sottovoce_lab.testbed.isolation import Isolation

_SECTIONS: dict[str, type[Struct]] = {
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
"""Options of the testbed, by the keys for which people write `--set` instead."""
_SYNONYMS = {"lr": "step_size", "learning_rate": "step_size", "batch_size": "batch", "epochs": "steps"}
"""Keys by the names that other programs use for them."""
_OWN = {"data.partition", "data.validation", "privacy.allow_unproved", "testbed.directory"}
_OF_LEARNER = "learner."
_DECIDED = {
    *("data.source", "data.ranges", "data.features", "data.classes"),
    *("learner.name", "learner.fidelity", "learner.model", "learner.period", "learner.begins_walk"),
    *("membership.sampling", "privacy.epsilon", "privacy.delta", "transport.listen", "transport.peers"),
    *("transport.use", "transport.mqtt", "transport.mqtt.realm"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Command line of `sottovoce testbed`, checked.

    Attributes:
        agents: number of agents.
        learner: a name in sottovoce.registry.ALGORITHMS.
        fidelity: `sound`, or `paper`: the algorithm to the letter.
        model: name of the model, or a file that ends in `.onnx`; None for the learner's default.
        data: a data SPEC.
        transport: `grpc` or `mqtt` (processes), `mixed` (processes: two in ten have both, all others either one),
            or `memory` (one process, virtual clock).
        epsilon: total ε; None for the noiseless baseline.
        delta: total δ.
        cycles: number of cycles of each agent.
        period: seconds between cycles.
        topology: a name that sottovoce_lab.simulator.out_peers accepts.
        seed: seed of the partition, the hold-out and the simulated network; real noise has no seed.
        faults: faults to inject.
        fault_words: the fault specifications as written.
        settings: the rest of the configuration, by dotted key.
        isolate: method of starting processes; None for the platform's default.
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
    fault_words: list[str]
    settings: dict[str, Any]
    isolate: Isolation | None = None

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise UsageError(f"--agents {self.agents}: a fleet needs at least one agent")
        if self.cycles < 1:
            raise UsageError(f"--cycles {self.cycles}: run at least one cycle")
        if not 0.001 <= self.period <= 3600:
            raise UsageError(f"--period {self.period:g}: choose 0.001 to 3600 seconds")
        if self.isolate is not None and self.transport == "memory":
            raise UsageError(f"--isolate {self.isolate}: --transport memory is one process; leave it out")
        check_topology(self.topology)
        if self.topology == NEWSCAST and self.transport == "memory":
            raise UsageError("--topology newscast samples peers over real sockets: use --transport grpc")
        if self.topology != NEWSCAST and self.transport == "mixed":
            raise UsageError(
                "--transport mixed: not every agent can reach every other, so peers must be sampled: use --topology "
                "newscast, and a learner that needs no graph of its own, such as clipd2p"
            )
        own_broker = self.transport in ("mqtt", "mixed") and self.broker is None
        if self.faults.broker_kill is not None and not own_broker:
            raise UsageError(
                "--fault broker-kill=…: needs --transport mqtt or mixed, and a broker of the testbed's own"
            )
        if self.faults.dishonest is not None and self.transport != "memory":
            raise UsageError("--fault dishonest=…: only simulated devices can lie: use --transport memory")
        if self.faults.vault and self.transport != "memory":
            raise UsageError("--fault vault=…: delays of a vault can only be simulated: use --transport memory")
        if (members := self.faults.member_faults) and self.transport != "memory":
            raise UsageError(f"--fault {members[0]}=…: affects only simulated agents: use --transport memory")
        if self.epsilon is not None and not self.epsilon > 0:
            raise UsageError(f"--epsilon {self.epsilon:g}: choose a positive number, or inf for no noise")
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta {self.delta:g}: choose a number between 0 and 1, for example 1e-5")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: choose 0 or more")
        allowed = self.allows_unproved
        self.faults.check(self.agents, self.cycles)
        if self.learner not in ALGORITHMS:
            raise UsageError(f"--learner {self.learner}: unknown learner; {unknown_name_hint(self.learner)}")
        for key in self.settings:
            table, _, own = key.partition(".")
            if table == "learner" and (problem := foreign_key_error(self.learner, own)) is not None:
                raise ConfigError(problem)
        if self.model is not None and (problem := self.algorithm.cannot_learn(self.model)) is not None:
            raise UsageError(f"--model {self.model}: {problem}")
        if self.unproved and self.epsilon is not None and not allowed:
            raise PrivacyError(
                f"--learner {self.learner} --fidelity paper: no ε is proved for the paper's variant: leave "
                "--fidelity out, or use --epsilon inf, or --set privacy.allow_unproved=true to run it anyway"
            )
        if self.ranges_from_training and self.epsilon is not None and not allowed:
            raise PrivacyError(
                "--fidelity paper scales features by the training set's own ranges, a release that no budget pays for, "
                "so no ε holds: declare them with --set data.bounds=[LOW,HIGH], or --epsilon inf, or "
                "--set privacy.allow_unproved=true to run it anyway"
            )
        if self.algorithm.noiseless and self.epsilon is not None and not allowed:
            raise PrivacyError(
                f"--learner {self.learner} adds no noise, so no ε holds for it: use --learner clipd2p, or "
                "--epsilon inf, or --set privacy.allow_unproved=true to run it anyway"
            )
        _ = self.budget  # raises an error for a budget that promises nothing

    @property
    def algorithm(self) -> Algorithm:
        """Registry entry of the learner."""
        return ALGORITHMS[self.learner]

    @property
    def noiseless(self) -> bool:
        """Whether the run promises no privacy."""
        return self.epsilon is None or self.algorithm.noiseless

    @property
    def allows_unproved(self) -> bool:
        """Whether the user allows a run for which no ε holds; a word like `no` does not allow it."""
        return self.settings.get("privacy.allow_unproved") is True

    @property
    def unproved(self) -> bool:
        """Whether no ε is proved for the learner: with fidelity `paper`, or with a mechanism of another package."""
        if self.fidelity == "paper" and self.algorithm.to_the_letter is None:
            return False  # such a learner is refused elsewhere
        return self.own_settings.unproved

    @property
    def ranges_from_training(self) -> bool:
        """Whether features are scaled by the training set's own ranges, as in the paper; the claim is refuted."""
        scaled = self.fidelity == "paper" and self.algorithm.scaled_by_training
        return scaled and "data.bounds" not in self.settings

    @property
    def budget(self) -> Budget:
        """Budget of one privacy unit."""
        promised = None if self.noiseless or self.ranges_from_training or self.unproved else self.epsilon
        neighbouring = str(self.settings.get("privacy.neighbouring", self._relation))
        unit = str(self.settings.get("privacy.unit", self.algorithm.unit))
        return Budget(promised, self.delta, unit, neighbouring)

    @property
    def _relation(self) -> str:
        """Neighbouring relation of the learner, by its settings."""
        algorithm = self.algorithm
        if algorithm.relation is None:
            return algorithm.neighbouring
        return algorithm.relation_of(self.own_settings)

    @property
    def own_settings(self) -> LearnerSettings:
        """Settings of the learner, as far as they are set."""
        own = {
            key.removeprefix(_OF_LEARNER): value for key, value in self.settings.items() if key.startswith(_OF_LEARNER)
        }
        return learner_settings({"name": self.learner, "fidelity": self.fidelity, **own}, "--set")

    @property
    def partition(self) -> str:
        """Partition by which the records are dealt out."""
        own = "one-record" if self.data.startswith("meters:") else "iid"
        return str(self.settings.get("data.partition", own))

    @property
    def broker(self) -> str | None:
        """URL of a broker that the user runs; None without one."""
        url = self.settings.get("transport.mqtt.url")
        return None if url is None else str(url)

    def transports_of(self, index: int) -> tuple[Literal["grpc", "mqtt"], ...]:
        """Return the transports of one agent. With `mixed`, the first agents have both: they seed all others."""
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
        """Method of starting processes."""
        return self.isolate or ISOLATION

    @property
    def directory(self) -> Path | None:
        """Directory of the fleet, if it is to be kept."""
        value = self.settings.get("testbed.directory")
        return None if value is None else Path(str(value))

    @property
    def steps(self) -> int:
        """Default number of private releases; devices only mix in the last fifth (large fleets: two fifths) of cycles.

        A secure sum takes two or three cycles, and no mixing follows it.
        """
        if self.algorithm.in_cells == "always":
            return max(1, self.cycles // 3)
        mixing = max(self.cycles // 5, min(2 * self.agents.bit_length(), self.cycles * 2 // 5))
        return max(1, self.cycles - mixing)

    @property
    def _file(self) -> Path | None:
        """Graph that the user named by its file, and thereby allows."""
        named = self.model is not None and self.model.endswith(GRAPH_SUFFIX)
        return Path(self.model).expanduser().absolute() if named and self.model else None

    @property
    def _defaults(self) -> dict[str, Any]:
        """Defaults of a short run, which the command line overrides."""
        paced = {"steps": self.steps, "longest_period": self.period}  # a run ends, and is measured at its end
        own = self.algorithm.own_keys
        usual: dict[str, Any] = {f"learner.{key}": value for key, value in paced.items() if key in own}
        usual["membership.period"] = max(0.05, self.period)
        if not self.algorithm.predicts:
            usual["data.transform"] = "none"
        return {**usual, "data.transform": "squash(1)"} if self.ranges_from_training else usual

    def configuration(self, **sections: dict[str, Any]) -> AgentConfig:
        """Build one agent's configuration: these tables first, then the command line, then the schema's defaults.

        Raises:
            ConfigError: if a value is impossible; the message names its key.
        """
        tables: dict[str, dict[str, Any]] = {name: dict(values) for name, values in sections.items()}
        decided = {
            "data.ranges": "training" if self.ranges_from_training else "declared",
            "learner.name": self.learner,
            "learner.fidelity": self.fidelity,
            "learner.model": self.model if self._file is None else str(self._file),
            "vault.graphs": [] if self._file is None else [digest_of(str(self._file))],
            "learner.period": self.period,
            "membership.sampling": "newscast" if self.topology == NEWSCAST else "static",
            "privacy.epsilon": float("inf") if self.noiseless else self.epsilon,
            "privacy.delta": self.delta,
            "privacy.allow_unproved": self.allows_unproved,
        }
        chosen = {key: value for key, value in self.settings.items() if key not in _OWN}
        for key, value in {**self._defaults, **chosen, **decided}.items():
            *path, name = key.split(".")
            table: dict[str, Any] = tables
            for part in path:
                table = table.setdefault(part, {})
            table[name] = value
        return config_from_tables(tables, "--set")


def topology_of(learner: str) -> str:
    """Return the default topology; also for an unknown name, which is refused elsewhere."""
    return ALGORITHMS[learner].topology if learner in ALGORITHMS else "exponential"


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse dotted keys and TOML values from `--set KEY=VALUE`.

    Raises:
        UsageError: for text that is not an assignment, an unknown key, or a key with an option of its own.
    """
    found = parse_assignments(assignments, "learner.clip=0.5")
    for key in found:
        check_key(key, "--set")
    return found


def check_key(key: str, origin: str) -> None:
    """Refuse an unknown key of the configuration, or a key that has an option of its own.

    Raises:
        UsageError: if the key is refused; the message names the nearest key.
    """
    known = {f"{table}.{name}" for table, section in _SECTIONS.items() for name in section.__struct_fields__}
    known |= {f"{_OF_LEARNER}{name}" for algorithm in loaded_algorithms().values() for name in algorithm.own_keys}
    known = (known - _DECIDED) | _OWN
    if (option := _OPTIONS.get(key)) is not None:
        raise UsageError(f"{origin} {key}: give the option {option} instead")
    if key in _DECIDED:
        raise UsageError(f"{origin} {key}: the testbed sets this key itself; leave it out")
    if key not in known:
        raise UsageError(f"{origin} {key}: unknown key. {_hint(key, known)}")


def _hint(key: str, known: Collection[str]) -> str:
    """Return the remedy for an unknown key."""
    table, _, own = key.rpartition(".")
    meant = _SYNONYMS.get(own, own)
    if near := suggestion(f"{table}.{meant}" if table else meant, known):
        return f"Did you mean `{near}`?"
    if keys := sorted(one for one in known if one.rpartition(".")[0] == table):
        return f"Keys of `{table}` are {', '.join(one.rpartition('.')[2] for one in keys)}."
    return f"A key has a table before it: one of {', '.join(sorted({one.rpartition('.')[0] for one in known}))}."
