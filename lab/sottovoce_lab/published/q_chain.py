"""Chains ended by a deep Q-network, as in Jin, He & Dai (2023), Algorithms 1 and 2; no sensitivity bound is known.

The local model, the network and its replay memory are computed from records without noise, so the vault keeps them, not
the learner. They are not stored: after a restart, the controller starts over from this device's last release.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.privacy.accounting.events import UnprovedRelease
from sottovoce.privacy.accounting.units import Units, union
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.unproved_point import UnprovedPoint
from sottovoce.privacy.vault.programs.program import Plan
from sottovoce_papers.jin_2023.private.steps import ChainSteps

from sottovoce_lab.published.controller import GLOBAL, LOCAL, Controller, TargetStep

Floats = NDArray[np.float64]

_MAX_TRACED_INPUTS = 100  # a trace shows a Q-network's parameters only if the network has at most this many inputs


@dataclass(frozen=True, slots=True)
class PublicDecision:
    """Mechanism that releases one exact integer.

    Attributes:
        size: 1.
        exponent: the grid step is 2**exponent.
    """

    size: int = 1
    exponent: int = 0

    def apply(self, raw: int, noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply."""
        return np.array([raw], dtype=np.int64)


@dataclass(slots=True)
class QChain:
    """Program for two queries about each batch t: `decide`, then, if the answer is GLOBAL, `chain`.

    The point of `decide` is this device's last release, P values. The answer is LOCAL, after the local step has been
    taken, or GLOBAL.
    The point of `chain` is the last release and the global weights, 2P values; see Chain.

    Unlike other programs, this one is not pure: each answer depends on all earlier ones.

    Attributes:
        steps: the two kinds of step on batches.
        controller: Algorithm 2's state.
        generator: the controller's random generator, seeded from the device's randomness at the start.
        deviations: s / max η for the noise added at the end of a chain.
        passes: number of passes over the records.
        count: number of records.
        name: the name under which releases are charged.
    """

    steps: ChainSteps
    controller: Controller
    generator: np.random.Generator
    deviations: float
    passes: int
    count: int
    name: str
    _local: Floats | None = None
    _first: int = 0
    _previous: tuple[Floats, int, int] | None = None
    _facts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def batches(self) -> int:
        """Number of complete batches in a pass."""
        return self.count // self.steps.batch

    def plan(self, query: Query) -> Plan[Any] | Refused:
        """Return a plan that touches one or two batches, at an infinite charge."""
        size = self.steps.kernel.size
        sizes = {"decide": size, "chain": 2 * size}
        if query.kind not in sizes or query.point.shape != (sizes[query.kind],) or query.slot < 0:
            return Refused(query.id, "query", "the vault's program does not support this query")
        if not np.isfinite(query.point).all():
            return Refused(query.id, "query", "the weights must be finite numbers")
        if query.slot >= self.passes * self.batches:
            return Refused(query.id, "budget", "all passes over the records have been completed")
        event = UnprovedRelease(self.name, self._touched_units(query))
        if query.kind == "decide":
            return Plan(event, PublicDecision())
        first = self._first if self._local is not None else query.slot
        sigma = self.deviations * self.steps.sizes.schedule(first + 1)
        return Plan(event, UnprovedPoint(size, sigma, self.name))

    def compute(self, query: Query, records: Records) -> Any:
        """Return the action, or the chain's final weights before noise, float64[P]."""
        if query.kind == "decide":
            return self._decide(query, records)
        size = self.steps.kernel.size
        local = query.point[:size] if self._local is None else self._local
        self._facts = {"local_before": local, "batch": self._batch_numbers(query.slot)}
        self._local = None  # the next chain starts from the release
        return self.steps.step_globally(query.point[size:], local, records, query.slot, self._start(query.slot))

    def trace(self) -> dict[str, Any]:
        """Return the last iteration of Algorithm 2 in JSON-serialisable form, for use in simulations."""
        return {name: _arrays_to_lists(fact) for name, fact in self._facts.items()}

    def _decide(self, query: Query, records: Records) -> int:
        if self._local is None:
            self._local, self._first = query.point.copy(), query.slot
        local, start = self._local, self._start(query.slot)
        loss = self.steps.loss(local, records, start)
        state = np.append(local, loss)
        reward = None
        if self._previous is not None:
            previous_state, action, previous_start = self._previous
            reward = -self.steps.loss(local, records, previous_start)
            self.controller.observe(previous_state, action, reward, state)
        networks = self._networks()
        learnt = self.controller.learn(self.generator)
        exploration = self.controller.exploration
        action = self.controller.decide(state, self.generator)
        self._previous = state, action, start
        if action == LOCAL:
            self._local = self.steps.step_locally(local, records, query.slot, start)
        self._facts = {
            "batch": self._batch_numbers(query.slot),
            "local_before": local,
            "local_after": self._local,
            "loss": loss,
            "state": state,
            "action": ("local", "global")[action == GLOBAL],
            "reward": reward,
            "exploration": exploration,
            "replay": self._replay(),
            "networks": networks,
            "learnt": None if learnt is None else _step_facts(learnt),
        }
        return action

    def _networks(self) -> dict[str, list[Any]] | None:
        """Return θ and θ' before this iteration's learning, or None if they are too large to record each time."""
        if self.controller.terms.state_size > _MAX_TRACED_INPUTS:
            return None
        networks = {"theta": self.controller.network, "theta_target": self.controller.target}
        return {name: list(network.arrays) for name, network in networks.items()}

    def _replay(self) -> list[dict[str, Any]]:
        """Return the transitions in the controller's memory, oldest first."""
        first = self.controller.observed - len(self.controller.memory)
        return [
            {
                "number": first + index,
                "state": state,
                "action": action,
                "reward": reward,
                "next": next_state,
            }
            for index, (state, action, reward, next_state) in enumerate(self.controller.memory)
        ]

    def _touched_units(self, query: Query) -> Units:
        """Return the record numbers of a batch; a decision also reads the previous batch, to compute its reward."""
        starts = [self._start(query.slot)]
        if query.kind == "decide" and self._previous is not None:
            starts.append(self._previous[2])
        return union(*(Units(((start, start + self.steps.batch - 1),)) for start in starts))

    def _batch_numbers(self, slot: int) -> list[int]:
        start = self._start(slot)
        return list(range(start, start + self.steps.batch))

    def _start(self, slot: int) -> int:
        return slot % self.batches * self.steps.batch


def _step_facts(step: TargetStep) -> dict[str, Any]:
    return {
        "transitions": step.transitions,
        "targets": step.targets,
        "predictions": step.predictions,
        "loss": step.loss,
        "copied": step.copied,
    }


def _arrays_to_lists(fact: Any) -> Any:
    """Replace any arrays in a fact with lists."""
    if isinstance(fact, np.ndarray):
        return fact.tolist()
    if isinstance(fact, dict):
        return {name: _arrays_to_lists(part) for name, part in fact.items()}
    return [_arrays_to_lists(part) for part in fact] if isinstance(fact, list) else fact
