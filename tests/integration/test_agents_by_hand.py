"""Agents as an operator runs them: made with the command, configured by hand, each a separate process."""

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.books import books, spending
from tests.support.command import document
from tests.support.devices import Device, accuracy, draw_records, free_port, new_device
from tests.support.processes import AGREED, AgentProcess, running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

STEPS = 20
STEPS_OF_A_LIFE = 100
PLENTY = {"privacy": {"epsilon": 100.0}}  # so that a few records are enough to learn from
STATUS = {
    "schema": str,
    "id": str,
    "fleet": str,
    "state": str,
    "resting_until": type(None),
    "learner": str,
    "cycle": int,
    "steps_done": int,
    "steps": int,
    "push_sum_weight": float,
    "privacy": dict,
    "ledger": dict,
    "peers": list,
    "task": dict,
    "membership": dict,
    "traffic": dict,
    "transport": dict,
    "refused": dict,
    "failures": dict,
    "waiting": list,
    "certificate_expires": str,
    "certificate": dict,
    "revocations": dict,
    "resources": dict,
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Two agents that know each other, created only with the command."""
    directory = tmp_path_factory.mktemp("pair")
    completed = sottovoce("fleet", "init", "--name", "hill-street", "--fleet", directory / "fleet")
    assert completed.returncode == 0, completed.stderr
    devices = [_join_fleet(directory / name, directory / "fleet", seed) for seed, name in enumerate("ab")]
    for item, other in (devices, devices[::-1]):
        item.configure([other.entry()], **PLENTY)
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is complete")  # type: ignore[misc]
        yield agents


def _join_fleet(state: Path, fleet: Path, seed: int) -> Device:
    from sottovoce.fleet import load

    joined = sottovoce("fleet", "join", "--fleet", fleet, "--state", state, "--epsilon", "100")
    assert joined.returncode == 0, joined.stderr
    identity = load(state / "identity")
    assert joined.stdout.strip() == identity.node_id
    output = document(sottovoce("fleet", "show", "--state", state, "--json").stdout)
    assert (output["id"], output["fleet"], output["name"]) == (identity.node_id, "hill-street", identity.dns_name)
    return Device(state, identity, free_port()).hold(*draw_records(60, seed))


def test_two_agents_learn_and_agree(pair: list[AgentProcess]) -> None:
    one, other = pair
    until(lambda: np.abs(one.model() - other.model()).max() < AGREED, "both have the same model")
    assert accuracy(one.model()) > 0.9


def test_the_status_is_one_document_with_known_fields(pair: list[AgentProcess]) -> None:
    until(lambda: pair[0].status()["traffic"]["received"] > 0, "the other's first share has arrived")
    until(lambda: pair[0].status()["refused"]["handshakes"] == 0, "a merely slow handshake is not counted")
    answer = sottovoce("agent", "status", "--config", pair[0].device.config, "--json")
    status = document(answer.stdout)
    assert {key: type(value) for key, value in status.items()} == STATUS
    assert (answer.returncode, answer.stderr) == (0, "")
    assert status["schema"] == "sottovoce.status/1"
    assert [entry["units"] for entry in status["privacy"]["person"]] == [2, 5]
    assert status["id"] == pair[0].device.id
    assert status["fleet"] == "hill-street"
    assert (status["steps_done"], status["steps"]) == (STEPS, STEPS)
    (peer,) = status["peers"]
    assert (peer["id"], peer["address"]) == (pair[1].device.id, pair[1].device.address)
    assert status["traffic"]["received"] > 0
    assert status["traffic"]["wire_bytes"] > status["traffic"]["payload_bytes"] > 0
    assert status["refused"] == {"handshakes": 0, "messages": {}, "flooding": []}
    assert 10 < status["resources"]["rss_mib"] < 160


def test_the_ledger_agrees_with_the_status_and_stays_within_the_budget(pair: list[AgentProcess]) -> None:
    for agent in pair:
        output = document(sottovoce("ledger", "show", "--state", agent.device.state, "--json").stdout)
        privacy = agent.status()["privacy"]
        assert output["owner"] == agent.device.id
        assert output["charges"] == output["releases"] == privacy["charges"] == privacy["releases"] == STEPS
        assert output["spent_epsilon"] == privacy["spent_epsilon"]
        assert 99 < output["spent_epsilon"] <= output["epsilon"] == privacy["epsilon"] == 100.0
        assert (privacy["status"], privacy["unit"], privacy["neighbouring"]) == ("proved", "record", "add-remove")


def test_the_status_describes_each_wait_in_words(pair: list[AgentProcess]) -> None:
    def read_status() -> str:
        """Return the status once it shows this wait; during a cycle, the agent waits for something else."""
        answer = sottovoce("agent", "status", "--state", pair[0].device.state, "--why")
        assert answer.returncode == 0, answer.stderr
        waits = [line for line in answer.stdout.splitlines() if line.startswith("waiting for")]
        assert all(" s so far, " in line and " at most " in line for line in waits)
        return answer.stdout if any("the next cycle" in line for line in waits) else ""

    assert re.search(r"ε [0-9.]+ of 100 spent", until(read_status, "the status shows the wait for the next cycle"))


def test_only_the_owner_can_query_the_agent(pair: list[AgentProcess]) -> None:
    state = pair[0].device.state
    assert (state / "agent.sock").stat().st_mode & 0o077 == 0
    assert state.stat().st_mode & 0o077 == 0
    for file in state.rglob("*"):
        assert file.is_dir() or file.stat().st_mode & 0o077 == 0, file


def test_a_second_agent_on_the_same_state_directory_is_refused(pair: list[AgentProcess]) -> None:
    before = pair[0].facts()["steps_done"]
    second = sottovoce("agent", "run", "--config", pair[0].device.config)
    assert second.returncode == 5
    assert second.stderr.count("\n") == 1
    assert "another agent is using this ledger; stop it first" in second.stderr
    assert pair[0].facts()["steps_done"] == before
    assert sottovoce("agent", "status", "--config", pair[0].device.config).returncode == 0


def test_a_single_agent_learns_alone(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "a", epsilon=100.0).configure(**PLENTY)
    with running(device) as (agent,):
        until(lambda: agent.status()["state"] == "mixing", "every private step is complete")
        assert accuracy(agent.model()) > 0.9
        status = agent.status()
        assert (status["push_sum_weight"], status["peers"], status["traffic"]["messages"]) == (1.0, [], 0)
        stopped = sottovoce("agent", "stop", "--config", device.config)
        assert (stopped.returncode, agent.wait_for_end()) == (0, 0)
    assert not (device.state / "agent.sock").exists()
    completed = sottovoce("agent", "status", "--config", device.config)
    assert completed.returncode == 7
    assert "no agent answers there; start it with" in completed.stderr


@pytest.mark.parametrize("signum, code", [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_an_agent_restarted_mid_run_resumes_where_it_stopped(
    fleet: Fleet, tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    """It has twenty seconds of steps to do, and completes the rest quickly after the restart."""
    device = new_device(fleet, tmp_path / "a")
    with running(device.configure(learner={"steps": STEPS_OF_A_LIFE, "period": 0.2})) as (agent,):
        until(lambda: agent.status()["steps_done"] >= 4, "some steps are complete")
        assert agent.end(signum) == code
    before = spending(device)
    assert 4 <= before.charges == before.releases < STEPS_OF_A_LIFE
    with running(device.configure(learner={"steps": STEPS_OF_A_LIFE, "period": 0.01})) as (restarted,):
        resumed = restarted.status()
        assert before.charges <= resumed["steps_done"] <= resumed["cycle"]
        until(lambda: restarted.status()["state"] == "mixing", "every private step is complete")
        assert restarted.end() == 0
    after = spending(device)
    assert (after.charges, after.releases) == (STEPS_OF_A_LIFE, STEPS_OF_A_LIFE)
    assert before.epsilon < after.epsilon <= 2.0
    assert "Traceback" not in restarted.log()


def test_an_agent_stopped_during_a_cycle_ends_cleanly(fleet: Fleet, tmp_path: Path) -> None:
    """With the shortest period, a cycle is always in progress."""
    device = new_device(fleet, tmp_path / "a").configure(learner={"steps": 3000, "period": 0.001})
    for steps in (5, 10, 15, 20):
        with running(device) as (agent,):
            until(lambda agent=agent, n=steps: agent.status()["steps_done"] >= n, "some steps are complete")  # type: ignore[misc]
            assert agent.end() == 0, agent.log()
            assert "Traceback" not in agent.log()


def test_a_share_for_an_unlisted_peer_waits_until_the_peer_is_listed_again(fleet: Fleet, tmp_path: Path) -> None:
    device, peer = (new_device(fleet, tmp_path / name) for name in "ab")
    with running(device.configure([peer.entry()])) as (agent,):
        until(lambda: agent.status()["failures"].get("unreachable"), "its first share reaches no peer")
        assert agent.end() == 0
    with running(device.configure()) as (agent,):
        until(lambda: agent.lines("share-stranded"), "the status shows it")
        (line,) = agent.lines("share-stranded")
        assert f"peer={peer.id} the peer's address is no longer known" in line
        until(lambda: agent.status()["state"] == "mixing", "it learns alone")
        assert agent.status()["push_sum_weight"] == 0.5
        assert agent.end() == 0
    with running(device.configure([peer.entry()]), peer.configure()) as (agent, other):
        until(lambda: other.status()["traffic"]["received"] > 0, "the share arrives")
        assert books_balance([agent, other])


def books_balance(agents: list[AgentProcess]) -> bool:
    """Stop the agents, and return whether mass is conserved across their books."""
    for agent in agents:
        assert agent.end() == 0
    return books([agent.device for agent in agents]).are_balanced


def test_a_port_in_use_stops_the_agent(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "a").configure()
    with socket.create_server(("127.0.0.1", device.port)):
        ran = sottovoce("agent", "run", "--config", device.config)
    assert ran.returncode == 7
    assert f"cannot listen on {device.address}" in ran.stderr
    assert "address already in use: stop the program that uses it" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert spending(device).charges == 0
    with running(device) as (agent,):
        assert agent.end() == 0
