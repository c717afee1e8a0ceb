"""Agents that mix contributions, as processes: a slow, absent or dishonest device does little harm, or none."""

import signal
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.codec import to_bytes
from sottovoce.algorithms.contributions.public.state import Contribution, Contributions, rank
from sottovoce.algorithms.push_sum.parts import INITIAL_SEED
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.node.provenance import FleetProvenance
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.attacker import Attacker, Outcome
from tests.support.books import spending
from tests.support.command import run_here
from tests.support.devices import accuracy, kernel
from tests.support.fleets import devices_listing_all, new_fleet
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

LEARNER: dict[str, Any] = {"mixing": "contributions", "steps": 20, "centre": "none"}
KIND = Contributions.kind


def sign_message(
    attacker: Attacker, numerator: NDArray[np.int64], steps: int = 20, owner: str = "", task: bytes = b""
) -> bytes:
    """Return a message with one contribution that the attacker has signed."""
    assert attacker.identity is not None
    provenance = FleetProvenance(attacker.identity, task or attacker.target.task)
    own = provenance.sign(Contribution(owner or attacker.identity.node_id, steps, numerator))
    return to_bytes(Contributions({rank(own.owner): steps}, (own,)))


def has_learnt(agent: AgentProcess) -> bool:
    return bool(agent.status()["state"] == "mixing")


def have_agreed(agents: list[AgentProcess], held: int, steps: int) -> bool:
    """Check that all agents have these contributions and steps, and have since published the same model."""

    def cycles_if_complete() -> list[int]:
        statuses = [agent.status() for agent in agents]
        complete = all((status["contributions_held"], status["steps_held"]) == (held, steps) for status in statuses)
        return [status["cycle"] for status in statuses] if complete else []

    if not (cycles := cycles_if_complete()):
        return False
    until(
        lambda: all(now > then + 1 for now, then in zip(cycles_if_complete(), cycles, strict=True)),
        "every agent's next beat",
    )
    models = [agent.model() for agent in agents]
    return all(np.array_equal(model, models[0]) for model in models)


@pytest.mark.timeout(300)
def test_a_slow_or_stopped_device_takes_nothing_from_the_others(fleet: Fleet, tmp_path: Path) -> None:
    devices = devices_listing_all(fleet, tmp_path, 6, {**LEARNER, "centre": "private"}, slow=[5])
    with running(*devices) as agents:
        *others, stopped, slow = agents
        stopped.process.send_signal(signal.SIGSTOP)
        for agent in others:
            until(lambda agent=agent: has_learnt(agent), "every private step is complete")  # type: ignore[misc]
        assert min(accuracy(agent.model()) for agent in others) > 0.9
        stopped.process.send_signal(signal.SIGCONT)
        until(lambda: has_learnt(stopped), "the stopped device continues where it stopped")
        until(
            lambda: have_agreed([*others, stopped], 5, 105), "all learning devices have the same model, to the last bit"
        )
        assert slow.status()["steps_done"] == 0, "its only cycle asked for the sum of its records"
        for agent in agents:
            assert agent.end() == 0
            assert "Traceback" not in agent.log()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lie", ["giant", "opposite", "tenfold"])
def test_one_member_s_contribution_distorts_no_model_and_is_removed_with_it(tmp_path: Path, lie: str) -> None:
    fleet = new_fleet(tmp_path / "authority", "bending")
    devices = devices_listing_all(fleet, tmp_path, 5, LEARNER)
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: has_learnt(agent), "every private step is complete")  # type: ignore[misc]
        until(lambda: have_agreed(agents, 5, 100), "all have the same model")
        before = agents[0].model()
        with Attacker(devices[0], enrol(fleet, tmp_path / "attacker")) as attacker:
            learnt_by_all = np.rint((kernel().initial(INITIAL_SEED) - before) * 2**40).astype(np.int64)
            bent = {"giant": np.full_like(learnt_by_all, MAX_NUMERATOR), "opposite": -learnt_by_all}
            numerator = bent.get(lie, -10 * learnt_by_all)
            sent = attacker.envelope(sequence=1, payload_type=KIND, payload=sign_message(attacker, numerator))
            assert attacker.deliver(sent) == Outcome(duplicate=False)
            until(lambda: have_agreed(agents, 6, 120), "the contribution has reached all agents")
            assert min(accuracy(agent.model()) for agent in agents) >= 0.95
            assert attacker.identity is not None
            completed = run_here(
                *("fleet", "revoke", "--fleet", tmp_path / "authority", attacker.identity.node_id),
                *("--out", tmp_path / "list"),
            )
            assert completed.code == 0, completed
        assert run_here("fleet", "revoke", "--state", devices[3].state, "--install", tmp_path / "list").code == 0
        until(lambda: have_agreed(agents, 5, 100), "all have removed its contribution")
        np.testing.assert_array_equal(agents[0].model(), before)
        for agent in agents:
            assert agent.end() == 0


@pytest.mark.timeout(300)
def test_no_device_signs_for_another_and_a_lost_state_costs_nothing(fleet: Fleet, tmp_path: Path) -> None:
    devices = devices_listing_all(fleet, tmp_path, 3, LEARNER)
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: has_learnt(agent), "every private step is complete")  # type: ignore[misc]
        until(lambda: have_agreed(agents, 3, 60), "all have the same model")
        before, cost = agents[0].model(), spending(devices[1])
        with Attacker(devices[0], enrol(fleet, tmp_path / "attacker")) as attacker:
            ones = np.ones(kernel().size, dtype=np.int64)
            silent = enrol(fleet, tmp_path / "silent").node_id
            for sequence, payload, reason in (
                (1, sign_message(attacker, ones, task=bytes(32)), "provenance"),
                (2, sign_message(attacker, ones, steps=21), "range"),
                (3, sign_message(attacker, np.ones(7, dtype=np.int64)), "shape"),
                (4, sign_message(attacker, ones, owner=silent), ""),
            ):
                outcome = attacker.deliver(attacker.envelope(sequence=sequence, payload_type=KIND, payload=payload))
                assert outcome.code == (grpc.StatusCode.FAILED_PRECONDITION if reason else None)
                assert outcome.details.startswith(reason), outcome
            assert agents[0].status()["contributions_held"] == 3, "an invalid forwarded contribution is skipped"
        np.testing.assert_array_equal(agents[0].model(), before)
        assert agents[1].end(signal.SIGKILL) == -signal.SIGKILL
        for file in devices[1].state.glob("state.db*"):
            file.unlink()
        with running(devices[1]) as (restarted,):
            until(lambda: has_learnt(restarted), "it has rebuilt its steps from the ledger")
            until(lambda: have_agreed([agents[0], restarted, agents[2]], 3, 60), "it has its earlier model")
            np.testing.assert_array_equal(restarted.model(), before)
            assert restarted.end() == 0
        assert spending(devices[1]) == cost, "nothing was charged twice"
