"""Kill -9 at any moment: nothing is charged twice, no mass is lost, and a restarted agent continues."""

import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.support.books import books, spending
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AGREED, AgentProcess
from tests.support.waiting import until

pytestmark = pytest.mark.process

AGENTS, STEPS, KILLS = 4, 30, 8


@pytest.mark.parametrize("seed", [1])
def test_repeatedly_killed_agents_lose_no_mass_and_exceed_no_budget(tmp_path: Path, seed: int) -> None:
    fate = random.Random(seed)
    devices = _ring(tmp_path)
    with ExitStack() as stack:
        agents = [stack.enter_context(AgentProcess(device)) for device in devices]
        for agent in agents:
            agent.ready()
        for _ in range(KILLS):
            time.sleep(fate.uniform(0.0, 0.4))  # the kill must happen at a random moment
            victim = fate.randrange(AGENTS)
            assert agents[victim].end(signal.SIGKILL) == -signal.SIGKILL
            agents[victim] = stack.enter_context(AgentProcess(devices[victim])).ready()
        for agent in agents:
            until(lambda agent=agent: agent.status()["steps_done"] == STEPS, "every private step is done")  # type: ignore[misc]
        until(lambda: _spread(agents) < AGREED, "the models agree")
        _check_books(agents, devices)


def _ring(directory: Path) -> list[Device]:
    fleet = new_fleet(directory / "fleet")
    devices = [new_device(fleet, directory / f"d{i}", seed=i) for i in range(AGENTS)]
    for i, device in enumerate(devices):
        peers = [devices[(i + j) % AGENTS].entry() for j in (1, 2)]
        device.configure(peers, learner={"period": 0.1, "steps": STEPS})
    return devices


def _spread(agents: list[AgentProcess]) -> float:
    models = np.stack([agent.model() for agent in agents])
    return float(np.ptp(models, axis=0).max())


def _check_books(agents: list[AgentProcess], devices: list[Device]) -> None:
    for agent in agents:
        agent.process.send_signal(signal.SIGTERM)
    assert [agent.wait_for_end() for agent in agents] == [0] * AGENTS
    for agent, device in zip(agents, devices, strict=True):
        spent = spending(device)
        assert (spent.charges, spent.releases) == (STEPS, STEPS)
        assert spent.epsilon <= 2.0
        assert "Traceback" not in agent.log()
    totals = books(devices)
    assert totals.weight == totals.joined
    assert totals.numerator.tolist() == (-totals.contributed).tolist()
