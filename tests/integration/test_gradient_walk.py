"""Gradient-walk agents as an operator runs them: one model walks over real sockets, and survives a kill."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.command import document, run_here
from tests.support.devices import Device, new_device
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.reports import check_report
from tests.support.saved_states import messages_in_transit, read_agents
from tests.support.waiting import until

pytestmark = pytest.mark.process

VISITS, EPSILON = 4, 8.0
WALK = {"name": "gradient-walk", "period": 0.05, "budget": "k-times", "visits": VISITS}


def walkers(fleet: Fleet, directory: Path, count: int = 3, *, alone: bool = False) -> list[Device]:
    created = [
        new_device(fleet, directory / f"d{i}", seed=i, epsilon=EPSILON, neighbouring="replace-one")
        for i in range(count)
    ]
    for i, device in enumerate(created):
        others = [other.entry() for other in created if other is not device]
        learner = {**WALK, "begins_walk": i == 0}
        device.configure(others, learner=learner, privacy={"epsilon": EPSILON}, ledger={"alone": alone})
    return created


def visits(agents: list[AgentProcess]) -> int:
    return sum(agent.status()["steps_done"] for agent in agents)


def test_one_model_walks_over_three_processes_and_survives_a_kill(fleet: Fleet, tmp_path: Path) -> None:
    devices = walkers(fleet, tmp_path)
    with running(*devices) as agents:
        until(lambda: visits(agents) >= 4, "the walk is under way")
        agents[1].end(signal.SIGKILL)
        with AgentProcess(devices[1]) as restarted:
            agents[1] = restarted.ready()
            until(lambda: visits(agents) == 3 * VISITS, "every visit is complete")
            for agent in agents:
                until(lambda agent=agent: agent.status()["model_age"] == 3 * VISITS, "it has seen the last model")  # type: ignore[misc]
            until(lambda: len({agent.model().tobytes() for agent in agents}) == 1, "one model circulates unchanged")
            statuses = [agent.status() for agent in agents]
            assert [agent.end() for agent in agents] == [0, 0, 0]
    stopped = read_agents({device.id: device.config for device in devices})
    held = sum(len(agent.saved.state.walks) for agent in stopped.values())
    assert held + len(list(messages_in_transit(stopped))) == 1, "there is still one walk"
    for status in statuses:
        assert (status["state"], status["steps_done"], status["steps"]) == ("mixing", VISITS, VISITS)
        assert (status["privacy"]["status"], status["privacy"]["neighbouring"]) == ("proved", "replace-one")
        assert not status["refused"]["messages"]
    for device in devices:
        output = document(sottovoce("ledger", "show", "--state", device.state, "--json").stdout)
        assert output["charges"] == output["releases"] == VISITS
        assert output["spent_epsilon"] == pytest.approx(EPSILON)
        assert output["spent_epsilon"] <= EPSILON


def test_a_device_without_records_passes_the_model_on(fleet: Fleet, tmp_path: Path) -> None:
    devices = walkers(fleet, tmp_path, 2)
    devices[1] = new_device(fleet, tmp_path / "empty", records=0, epsilon=EPSILON, neighbouring="replace-one")
    devices[0].configure([devices[1].entry()], learner={**WALK, "begins_walk": True}, privacy={"epsilon": EPSILON})
    devices[1].configure([devices[0].entry()], learner=WALK, privacy={"epsilon": EPSILON})
    with running(*devices) as agents:
        until(lambda: agents[0].status()["steps_done"] == VISITS, "the model returns repeatedly")
        status = agents[1].status()
        assert (status["steps_done"], status["privacy"]["charges"]) == (0, 0)


def is_not_in_transit(status: dict[str, Any]) -> bool:
    return status["walks_held"] == 0 and bool(status["peers"][0]["failures_in_a_row"] > 1)


def test_a_walk_waits_for_a_peer_that_is_down(fleet: Fleet, tmp_path: Path) -> None:
    devices = walkers(fleet, tmp_path, 2, alone=True)  # otherwise, the first step would also wait for it
    with running(devices[0]) as (first,):
        until(lambda: is_not_in_transit(first.status()), "the model is not in transit")
        with running(devices[1]) as (second,):
            until(lambda: visits([first, second]) == 2 * VISITS, "it arrives, and moves on")


def test_the_walk_requires_a_replace_one_ledger(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "d").configure(learner=WALK, privacy={"neighbouring": "add-remove"})
    completed = sottovoce("agent", "run", "--config", device.config)
    assert completed.returncode == 5
    assert "takes the mean over its records, which reveals the number of records" in completed.stderr


def test_the_testbed_runs_it_with_processes(tmp_path: Path) -> None:
    completed = sottovoce(
        "testbed", "--learner", "gradient-walk", "--agents", 3, "--cycles", 30, "--period", 0.1, "--epsilon", 50,
        "--set", "learner.budget=halving", "--set", "learner.visits=3", "--json",
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=3)
    assert report["privacy"]["status"] == "proved"
    assert 0 < report["privacy"]["spent_epsilon_max"] <= 50 * 7 / 8
    assert 3 <= report["privacy"]["releases"] <= 9


@pytest.mark.parametrize("fidelity", ["sound", "paper"])
@pytest.mark.parametrize("model", ["pegasos", "logistic"])
def test_it_learns_in_memory(fidelity: str, model: str) -> None:
    words = ["testbed", "--learner", "gradient-walk", "--transport", "memory", "--cycles", 100, "--json",
             "--fidelity", fidelity, "--model", model, "--set", "data.bounds=[0,16]"]  # fmt: skip
    accuracies = []
    for epsilon in ("500", "inf"):
        completed = run_here(*words, "--epsilon", epsilon)
        assert completed.code == 0, completed.err
        report = document(completed.out)
        check_report(report, agents=12)
        assert report["privacy"]["status"] == ("none" if epsilon == "inf" else "proved")
        assert report["privacy"]["releases"] == 12
        accuracies.append(report["final"]["accuracy_mean"])
    assert accuracies[1] > 0.7
    assert accuracies[1] > accuracies[0] > 0.2


def test_the_paper_s_ranges_are_refuted(tmp_path: Path) -> None:
    words = ["testbed", "--learner", "gradient-walk", "--transport", "memory", "--agents", 3, "--cycles", 12,
             "--fidelity", "paper", "--json"]  # fmt: skip
    assert run_here(*words, "--epsilon", 5).code == 5
    allowed = run_here(*words, "--epsilon", 5, "--set", "privacy.allow_unproved=true")
    assert allowed.code == 0, allowed.err
    privacy = document(allowed.out)["privacy"]
    assert (privacy["status"], privacy["epsilon"], privacy["spent_epsilon_max"]) == ("refuted", 5.0, None)


@pytest.mark.parametrize(
    "settings, code, words",
    [
        (["learner.begins_walk=true"], 2, "the testbed sets this key itself"),
        (["learner.visits=3"], 3, "budget = once allows one visit; choose k-times or halving"),
        (["learner.budget=halving", "learner.visits=80"], 5, "more noise than the grid allows"),
        (["privacy.neighbouring=add-remove"], 5, "privacy.neighbouring=replace-one"),
    ],
)
def test_invalid_settings_are_refused(settings: list[str], code: int, words: str) -> None:
    chosen = [word for setting in settings for word in ("--set", setting)]
    completed = run_here("testbed", "--learner", "gradient-walk", "--transport", "memory", "--cycles", 5, *chosen)
    assert (completed.code, words in completed.err) == (code, True), completed.err


def test_a_run_can_be_traced(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    completed = run_here("testbed", "--learner", "gradient-walk", "--transport", "memory", "--agents", 3, "--cycles", 9,
                 "--trace", path)  # fmt: skip
    assert completed.code == 0, completed.err
    events = json.loads(path.read_text())["events"]
    assert sum(event["event"] == "answer" for event in events) >= 2
    assert max(walk["age"] for event in events if event.get("state") for walk in event["state"]["walks"]) >= 2
