"""Results of a single game and of a whole audit."""

from dataclasses import dataclass, field
from typing import Any

from sottovoce.privacy.api import PrivacyStatement

SIGNIFICANCE = 1e-6
"""Significance level of a whole audit: at most one in a million audits wrongly refutes a sound target."""

CONFIDENCE = 0.95
"""Simultaneous confidence of the lower bounds on ε, over all games."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a game.

    Attributes:
        game: the game's name.
        question: the question that the game answers.
        trials: the number of times the game was played.
        facts: counts, measurements and stated values.
        p_value: an upper bound on the probability of a result at least this bad if the claim is true; None if the
            game's lower bound on ε decides its outcome instead.
        epsilon_lower_bound: the lower bound on ε at the game's share of CONFIDENCE; None if the game does not bound ε.
        refuted: whether the claim is refuted at the game's share of SIGNIFICANCE.
    """

    game: str
    question: str
    trials: int
    facts: dict[str, float | int | str] = field(default_factory=dict)
    p_value: float | None = None
    epsilon_lower_bound: float | None = None
    refuted: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return the finding as a JSON-ready dictionary."""
        return {
            "name": self.game,
            "question": self.question,
            "trials": self.trials,
            **self.facts,
            "p_value": self.p_value,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "verdict": "refuted" if self.refuted else f"not refuted at {self.trials}",
        }


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome of all games.

    Attributes:
        kind: `mechanism` or `learner`.
        name: the target's name.
        fidelity: `sound` or `paper`.
        observation: what the auditor observed: `wire` or `release`.
        public_parameters: the target's public parameters.
        statement: the audited privacy claim.
        delta: the claim's δ; 0 for a pure ε.
        findings: one finding per game.
        sample_size: the number of trials per world that would refute the claim if the true ε were twice as large; None
            if there is no claim or the number is too large to compute.
        trials: the number of trials requested.
        seconds: how long the audit took, in seconds.
    """

    kind: str
    name: str
    fidelity: str
    observation: str
    public_parameters: dict[str, Any]
    statement: PrivacyStatement
    delta: float | None
    findings: list[Finding]
    sample_size: int | None
    trials: int
    seconds: float

    @property
    def refuted(self) -> bool:
        """Whether any game refuted the claim."""
        return any(finding.refuted for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The verdict as text. An audit can refute a claim but never prove it, so the verdict is never "private"."""
        if self.refuted:
            return "refuted"
        return "no claim" if self.statement.epsilon is None else f"not refuted at {self.trials} trials"

    @property
    def epsilon_lower_bound(self) -> float:
        """The largest lower bound on ε from any game, at the simultaneous confidence CONFIDENCE."""
        return max((finding.epsilon_lower_bound or 0.0 for finding in self.findings), default=0.0)

    def as_dict(self) -> dict[str, object]:
        """Return the document that `--json` prints."""
        return {
            "schema": "sottovoce.audit/1",
            "target": {"kind": self.kind, "name": self.name, "fidelity": self.fidelity},
            "seen": self.observation,
            "played": self.public_parameters,
            "statement": self.statement.as_dict(),
            "epsilon_stated": self.statement.epsilon,
            "delta": self.delta,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "confidence": CONFIDENCE,
            "significance": SIGNIFICANCE,
            "verdict": self.verdict,
            "trials": self.trials,
            "sample_size_to_refute": self.sample_size,
            "games": [finding.as_dict() for finding in self.findings],
            "wall_s": round(self.seconds, 2),
        }
