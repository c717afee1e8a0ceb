"""Departure: the recipient of the device's mass, the end of acceptance, and the report if no peer answers."""

import asyncio
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum, PushSumState
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.core import Core
from sottovoce.node.departure import Departure
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.link import Link
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import GradientWalk

from tests.support.waiting import let_others_run

SCHEDULE = Schedule(
    learner="push-sum", size=2, period=1.0, steps=0, step_size=1.0, step_decay=0.0, expected_records=1.0, fanout=1
)
SHARE = PushSumShare(np.array([5, 7]), 3)


class Someone:
    """Parts of a link that a departure uses."""

    def __init__(self, node: str, failures: int = 0) -> None:
        self.peer = Peer(node, "10.0.0.1:7400", node)
        self.failures = failures


class Rig:
    """A leaving device: some peers answer, some of them confirm, and some have left before."""

    def __init__(self, *peers: Someone, alive: set[str], gone: set[str] = frozenset(), confirms: bool = True) -> None:  # type: ignore[assignment]
        state = PushSumState(np.array([11, 13]), WEIGHT_ONE)
        self.core = Core(
            learner=PushSum(SCHEDULE), store=MemoryStore(state), seal=lambda to, sequence, message: message
        )
        self.asked: list[str] = []
        self.heirs: list[str] = []
        self.late: list[PushSumShare] = []
        self._alive = alive
        self._confirms = confirms
        self.departure = Departure(
            core=self.core,
            head_gossip=cast(LedgerHeadGossip, self),
            links=cast("dict[str, Link]", {peer.peer.id: peer for peer in peers}),
            has_left=gone.__contains__,
            hand_off=self._hand_off,
        )

    async def send_head(self, peer: Peer) -> None:
        """See LedgerHeadGossip.send_head."""
        self.asked.append(peer.id)
        if peer.id not in self._alive:
            raise DeliveryFailed("unreachable", "nothing listens there")

    async def _hand_off(self, successor: str) -> None:
        self.heirs.append(successor)
        self.core.hand_off(successor)
        if self._confirms:
            asyncio.get_running_loop().call_later(0.01, self._confirmed, successor)

    def _confirmed(self, successor: str) -> None:
        if self.late:
            self.core.receive("x", 1, len(self.heirs), self.late.pop(), 0.0)
        self.core.confirm(successor, len(self.heirs), 0.0)
        self.departure.note_progress()

    async def leave(self, *, told: bool = True) -> dict[str, Any]:
        outcome = asyncio.ensure_future(self.departure.wait_for_outcome())
        await let_others_run()
        await self.departure.hand_over(asyncio.Event(), peers_informed=told)
        self.departure.report_outcome()
        return await outcome


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"LEAVE": 0.5, "_ACCEPT": 0.2, "_QUIET": 0.05}.items():
        monkeypatch.setattr(f"sottovoce.node.departure.{name}_SECONDS", seconds)
    monkeypatch.setattr("sottovoce.node.departure._PAUSE_SECONDS", 0.01)


async def test_all_mass_goes_to_one_peer_that_answers_and_has_not_left() -> None:
    rig = Rig(
        Someone("dead"),
        Someone("left"),
        Someone("weak", 3),
        Someone("well"),
        alive={"left", "weak", "well"},
        gone={"left"},
    )
    assert await rig.leave() == {"stopping": True, "handed_over": True, "left": ""}
    assert rig.heirs == ["well"]
    assert "left" not in rig.asked
    assert rig.core.state.weight == 0
    assert rig.departure.is_closed


async def test_mass_received_during_departure_is_handed_over() -> None:
    rig = Rig(Someone("well"), alive={"well"})
    rig.late = [SHARE, SHARE]
    assert (await rig.leave())["handed_over"]
    assert rig.heirs == ["well"] * 3
    assert rig.core.state.weight == 0


@pytest.mark.parametrize("told", [True, False])
async def test_device_accepts_no_messages_if_its_peers_were_not_informed(told: bool) -> None:
    rig = Rig(Someone("well"), alive=set())
    leaving = asyncio.ensure_future(rig.leave(told=told))
    await let_others_run(50)
    assert rig.departure.is_closed is not told
    await leaving
    assert rig.departure.is_closed


async def test_mass_stays_if_no_peer_is_alive(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Someone("dead"), alive=set())
    outcome = await rig.leave()
    assert outcome == {
        "stopping": True, "handed_over": False, "left": "no peer took over this device's push-sum share"
    }  # fmt: skip
    assert rig.core.state.weight == WEIGHT_ONE
    assert len(rig.asked) > 1, "it was tried again"
    assert "leave-incomplete" in caplog.text


async def test_share_is_not_sent_elsewhere_if_its_recipient_does_not_confirm() -> None:
    rig = Rig(Someone("slow"), Someone("well"), alive={"slow", "well"}, confirms=False)
    outcome = await rig.leave()
    assert rig.heirs == ["slow"]
    assert outcome["left"] == "slow did not confirm this device's messages"
    assert [outgoing.recipient for outgoing in rig.core.outbox] == ["slow"]


async def test_a_learner_without_mass_hands_over_nothing() -> None:
    rig = Rig(Someone("well"), alive={"well"})
    rig.core._learner = object.__new__(GradientWalk)
    assert await rig.leave() == {"stopping": True, "handed_over": True, "left": ""}
    assert rig.asked == []
