"""Leaving device: it removes nothing from the average, and on its return begins with its peers' shares."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE
from sottovoce.net.wire.v1.state_pb2 import PushSumState
from sottovoce_operator.fleet import Fleet

from tests.support.books import books
from tests.support.devices import Device, new_device
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

LEARNING = {"period": 0.1, "steps": 5}
SAMPLED = {"sampling": "newscast", "period": 0.5}


def weight_and_outbox(device: Device) -> tuple[int, int]:
    """Return a stopped device's weight, in units of 2^-40, and the shares in its outbox."""
    with closing(sqlite3.connect(device.state / "state.db")) as connection:
        (raw,) = connection.execute("SELECT state FROM learner").fetchone()
        ((waiting,),) = connection.execute("SELECT COUNT(*) FROM link WHERE unconfirmed").fetchall()
    return PushSumState.FromString(raw).weight, waiting


def leave(agent: AgentProcess) -> tuple[int, str]:
    """Return the exit code and the output of `agent stop --leave`."""
    completed = sottovoce("agent", "stop", "--leave", "--config", agent.device.config)
    return completed.returncode, completed.stderr


def stop(agents: list[AgentProcess]) -> None:
    for agent in agents:
        agent.process.send_signal(signal.SIGTERM)
    assert [agent.wait_for_end() for agent in agents] == [0] * len(agents)


@pytest.mark.parametrize("membership", [{"sampling": "static"}, SAMPLED])
def test_the_others_have_all_mass_and_the_device_returns_with_none(
    fleet: Fleet, tmp_path: Path, membership: dict[str, object]
) -> None:
    devices = [new_device(fleet, tmp_path / name, seed=seed) for seed, name in enumerate("abcd")]
    for device in devices:
        others = [other.entry() for other in devices if other is not device]
        device.configure(others, learner=LEARNING, membership=membership)
    leaving_device, *staying_devices = devices
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["steps_done"] == 5, "every private step is complete")  # type: ignore[misc]
        assert leave(agents[0]) == (0, "")
        assert agents[0].wait_for_end() == 0
        assert weight_and_outbox(leaving_device) == (0, 0)
        assert "left" in agents[0].log()
        stop(agents[1:])
    assert books(devices).are_balanced
    if not any(weight_and_outbox(device)[1] for device in staying_devices):
        assert sum(weight_and_outbox(device)[0] for device in staying_devices) == 4 * WEIGHT_ONE
    with running(*devices) as agents:
        spent = agents[0].status()["privacy"]["charges"]
        assert spent == 5, "it still has its ledger"
        until(lambda: agents[0].status()["push_sum_weight"] > 0, "others have sent it weight")
        stop(agents)
    assert books(devices).are_balanced


@pytest.mark.soak  # it waits for the half minute that a peer has
def test_unconfirmed_mass_stays_on_the_device_which_reports_it(fleet: Fleet, tmp_path: Path) -> None:
    one, other = (new_device(fleet, tmp_path / name, seed=seed) for seed, name in enumerate("ab"))
    one.configure([other.entry()], learner=LEARNING)
    other.configure([one.entry()], learner=LEARNING)
    with running(one, other) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["steps_done"] == 5, "every private step is complete")  # type: ignore[misc]
        agents[1].end(signal.SIGKILL)
        code, output = leave(agents[0])
        assert code == 7
        assert "the agent has stopped" in output
        assert other.id in output or "no peer took over" in output
        assert agents[0].wait_for_end() == 0
        agents[0].logged_line("leave-incomplete")
    assert books([one, other]).are_balanced
    with running(one, other) as agents:
        assert leave(agents[0]) == (0, ""), "the next attempt succeeds"
        assert agents[0].wait_for_end() == 0
        assert weight_and_outbox(one) == (0, 0)
        stop(agents[1:])
    assert books([one, other]).are_balanced


def test_a_learner_without_mass_only_announces_its_departure(fleet: Fleet, tmp_path: Path) -> None:
    devices = [new_device(fleet, tmp_path / name, neighbouring="replace-one") for name in "abc"]
    for device in devices:
        others = [other.entry() for other in devices if other is not device]
        device.configure(others, learner={"name": "golf", "period": 0.2}, membership=SAMPLED)
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: len(agent.status()["membership"]["view"]) == 2, "all know each other")  # type: ignore[misc]
        assert leave(agents[0]) == (0, "")
        assert agents[0].wait_for_end() == 0
        for agent in agents[1:]:
            until(lambda agent=agent: len(agent.status()["membership"]["view"]) == 1, "it has left all views")  # type: ignore[misc]
