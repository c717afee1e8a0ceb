"""The report on a run, in the format `sottovoce.report/1`."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sottovoce.privacy.api import PrivacyStatement

from sottovoce_lab.testbed.baselines import Baselines, prediction_warnings
from sottovoce_lab.testbed.measure import PredictionErrors, Quality

SCHEMA = "sottovoce.report/1"


@dataclass(frozen=True, slots=True)
class AgentReport:
    """An agent's state at the end of a run. `epsilon_spent` is None if no ε is promised."""

    id: str
    alive: bool
    cycles: int
    peers: int
    epsilon_spent: float | None
    releases: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """All agents' traffic. `wire_bytes` counts envelopes and receipts, including retries, before HTTP/2 and TLS."""

    messages: int = 0
    payload_bytes: int = 0
    wire_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that the agents used. Each value is None if all agents share one process."""

    ready_s_median: float | None = None
    rss_mib_median: float | None = None
    rss_mib_max: float | None = None
    cpu_s_per_agent: float | None = None


@dataclass(slots=True)
class Report:
    """The results of a run.

    Attributes:
        run: the run's settings and duration.
        statement: the privacy guarantee.
        final: the measures at the end of the run.
        curve: the measures during the run.
        traffic: the numbers of messages and bytes sent.
        resources: the time and memory used.
        agents: each agent's state at the end of the run, with the spending read from its ledger.
        faults: the `--fault` specifications.
        ledgers_agree: whether every ledger agrees with its agent's report.
        baselines: computes the accuracies of trivial rules for the document, or returns None if the task is not a
            classification.
        warnings: warnings for the reader.
        interrupted: the cycle at which Ctrl-C ended the run; None for a complete run.
    """

    run: dict[str, Any]
    statement: PrivacyStatement
    final: Quality
    curve: list[dict[str, Any]]
    traffic: Traffic
    resources: Resources
    agents: list[AgentReport]
    faults: list[str]
    ledgers_agree: bool
    baselines: Callable[[], Baselines | None] = lambda: None
    warnings: list[str] = field(default_factory=list)
    interrupted: int | None = None

    @property
    def _noise(self) -> Literal["none", "local", "cell"]:
        if self.statement.epsilon is None:
            return "none"
        return "local" if self.statement.epsilon_alone is None else "cell"

    def _remarks(self, baselines: Baselines | None) -> list[str]:
        """Return warnings based on the reported values."""
        warnings = []
        if self.interrupted is not None:
            warnings = [
                f"interrupted at cycle {self.interrupted} of {self.run['cycles']}: results measured at that cycle"
            ]
        noise = self._noise
        if noise == "local" and self.agents and not any(agent.releases for agent in self.agents):
            noise = "none"
            warnings.append(
                "no device released anything, so every model is without records: look for query-refused in the logs, "
                "which names the quantity that the vault's terms lack"
            )
        if isinstance(self.final, PredictionErrors):
            return warnings + prediction_warnings(self.final, noise)
        if baselines is None:
            return warnings
        return warnings + baselines.warnings(self.final, noise)

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        statement = self.statement.as_dict()
        spent = [agent.epsilon_spent for agent in self.agents]
        finite = [epsilon for epsilon in spent if epsilon is not None]
        promised = bool(finite) and len(finite) == len(spent) and self.statement.epsilon is not None
        agent_cycles = sum(agent.cycles for agent in self.agents)
        baselines = self.baselines()
        return {
            "schema": SCHEMA,
            "run": self.run if self.interrupted is None else {**self.run, "interrupted_at": self.interrupted},
            "privacy": {
                **statement,
                "spent_epsilon_max": max(finite) if promised else None,
                "releases": sum(agent.releases for agent in self.agents),
                "ledgers_agree": self.ledgers_agree,
            },
            "curve": self.curve,
            "final": asdict(self.final),
            "baselines": None if baselines is None else asdict(baselines),
            "traffic": {
                **asdict(self.traffic),
                "wire_bytes_per_agent_cycle": self.traffic.wire_bytes / agent_cycles if agent_cycles else 0.0,
            },
            "resources": asdict(self.resources),
            "agents": [asdict(agent) for agent in self.agents],
            "faults": self.faults,
            "warnings": self.warnings + self._remarks(baselines),
        }
