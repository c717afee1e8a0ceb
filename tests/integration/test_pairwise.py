"""Agents that average in pairs, as processes: a slow or stopped agent takes nothing, and no model moves far."""

import signal
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from sottovoce.algorithms.pairwise.codec import to_bytes
from sottovoce.algorithms.pairwise.public.state import Move, Proposal
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.net.wire import decode, decode_receipt
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.attacker import Attacker, Outcome
from tests.support.books import spending
from tests.support.devices import accuracy, kernel
from tests.support.fleets import devices_listing_all
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

UNIT = 2**40
LEARNER: dict[str, Any] = {"mixing": "pairwise", "steps": 20}


def has_learnt(agent: AgentProcess) -> bool:
    return bool(agent.status()["state"] == "mixing")


def agree(agents: list[AgentProcess]) -> bool:
    models = np.array([agent.model() for agent in agents])
    return bool(np.ptp(models, axis=0).max() < 1e-2)


def offer(number: float, *, reach: float = np.inf, size: int = 0) -> bytes:
    numerator = np.full(size or kernel().size, int(number * UNIT), dtype=np.int64).clip(-MAX_NUMERATOR, MAX_NUMERATOR)
    return to_bytes(Proposal(numerator, 2, reach))


@pytest.mark.timeout(300)
def test_a_slow_or_stopped_device_takes_nothing_from_the_others(fleet: Fleet, tmp_path: Path) -> None:
    devices = devices_listing_all(fleet, tmp_path, 6, {**LEARNER, "period": 0.1}, slow=[5])
    with running(*devices) as agents:
        *others, stopped, slow = agents
        stopped.process.send_signal(signal.SIGSTOP)
        for agent in others:
            until(lambda agent=agent: has_learnt(agent), "every private step is complete")  # type: ignore[misc]
        until(lambda: agree(others), "the others agree")
        assert min(accuracy(agent.model()) for agent in others) > 0.9
        assert slow.status()["steps_done"] <= 1
        until(lambda: accuracy(slow.model()) > 0.5, "the slow device receives what the others learn")
        stopped.process.send_signal(signal.SIGCONT)
        until(lambda: has_learnt(stopped), "the stopped device continues where it stopped")
        until(lambda: agree([*others, stopped]), "it agrees with the others")
        for agent in (*others, stopped, slow):
            assert agent.end() == 0
            assert "Traceback" not in agent.log()


@pytest.mark.timeout(300)
def test_one_message_moves_no_device_far_and_a_lost_state_is_recovered(fleet: Fleet, tmp_path: Path) -> None:
    devices = devices_listing_all(fleet, tmp_path, 3, LEARNER)
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: has_learnt(agent), "every private step is complete")  # type: ignore[misc]
        until(lambda: agree(agents), "all agree")
        before, cost = agents[0].model(), spending(devices[1])
        with Attacker(devices[0], enrol(fleet, tmp_path / "attacker")) as attacker:
            for sequence, payload, reason in (
                (1, offer(1.0, size=7), "shape"),
                (2, offer(2.0**20), ""),
                (3, offer(-(2.0**20)), ""),
            ):
                sent = attacker.envelope(sequence=sequence, payload_type=Proposal.kind, payload=payload)
                outcome = attacker.deliver(sent)
                assert outcome.code == (grpc.StatusCode.FAILED_PRECONDITION if reason else None)
                assert outcome.details.startswith(reason), outcome
            assert agents[0].status()["proposals_declined"] == 2
            np.testing.assert_allclose(agents[0].model(), before, atol=1e-2)
            near = attacker.envelope(sequence=4, payload_type=Proposal.kind, payload=offer(1.0))
            moves = [decode(*(decode_receipt(attacker.raw(near)).reply or ("", b""))) for _ in range(2)]
            assert all(isinstance(move, Move) for move in moves)
            assert moves[0].traced() == moves[1].traced(), (
                "a repetition gets the same answer, and moves no device again"
            )
            assert attacker.deliver(near) == Outcome(duplicate=True)
        until(lambda: agree(agents), "all agree again")
        assert min(accuracy(agent.model()) for agent in agents) > accuracy(before) - 0.02
        assert agents[1].end(signal.SIGKILL) == -signal.SIGKILL
        for file in devices[1].state.glob("state.db*"):
            file.unlink()
        with running(devices[1]) as (restarted,):
            until(lambda: has_learnt(restarted), "its ledger shows its progress")
            until(lambda: agree([agents[0], restarted, agents[2]]), "it receives the model")
            assert restarted.status()["steps_done"] == 20
            assert restarted.end() == 0
        assert spending(devices[1]) == cost, "nothing was charged twice"
