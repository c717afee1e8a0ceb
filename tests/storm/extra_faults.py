"""Faults that the simulator lacks: members that lie in secure sums, and agents whose configuration changes."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import cast

from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.errors import InternalError
from sottovoce.node.own_task import build_task
from sottovoce.privacy.secure_sum.statements import Body, Statement, body_bytes
from sottovoce.privacy.vault import Vault
from sottovoce_lab.simulator import Device
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.plan import Plan

from tests.cells.liars import LIARS, DealsAnotherSeed, Forger, ForgesResults, Liar, with_another_seed


class ForgesUnderOwnKey(ForgesResults):
    """Forger of results in a fleet with real keys, who signs in the names of others with its own key."""

    def _forger(self, state: CellState, seed: int) -> Forger:
        names = [*state.peers, self._owner]
        return Forger(self._owner, names, self.consumer.size, seed, self._signed_as)

    def _signed_as(self, owner: str, body: Body) -> Statement:
        return replace(self._sign(body_bytes(body)), owner=owner)


CELL_LIARS: Mapping[str, type[Liar]] = {**LIARS, ForgesResults.__name__: ForgesUnderOwnKey}


class ExtraFaults(memory.AgentFaults):
    """Implementation of sottovoce_lab.testbed.memory.AgentFaults with these faults.

    Args:
        plan: plan of the run.
        liar: name in CELL_LIARS of the last agent's lie; empty for an honest agent.
        later: plan with the configuration of each agent after a restart; None for no change.
    """

    def __init__(self, plan: Plan, liar: str, later: Plan | None) -> None:
        if later is not None and build_task(plan.config) != build_task(later.config):
            raise InternalError("the storm changes at a restart what a fleet has to agree on")
        self.needs_identities = bool(liar)
        self.later_plan = later
        self._liar, self._place = liar, plan.options.agents - 1

    def alter(self, index: int, device: Device) -> None:
        """See AgentFaults.alter."""
        if not self._liar or index != self._place:
            return
        device.learner, device.is_honest = copy(device.learner), False
        device.learner.__class__ = CELL_LIARS[self._liar]
        if self._liar == DealsAnotherSeed.__name__:
            with_another_seed(cast(Vault, getattr(device.vault, "_vault", device.vault)))
