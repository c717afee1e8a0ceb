"""Gradient-walk agents as an operator runs them: one model walks over real sockets, and survives a kill."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from sottovoce.identity import Fleet

from tests.support.command import here
from tests.support.devices import Device, new_device
from tests.support.processes import AgentProcess, document, running, sottovoce
from tests.support.reports import check_report
from tests.support.waiting import until

VISITS, EPSILON = 4, 8.0
WALK = {"name": "gradient-walk", "period": 0.05, "budget": "k-times", "visits": VISITS}


def walkers(fleet: Fleet, directory: Path, count: int = 3, *, alone: bool = False) -> list[Device]:
    made = [
        new_device(fleet, directory / f"d{i}", seed=i, epsilon=EPSILON, neighbouring="replace-one")
        for i in range(count)
    ]
    for i, device in enumerate(made):
        others = [other.entry() for other in made if other is not device]
        learner = {**WALK, "begins_walk": i == 0}
        device.configure(others, learner=learner, privacy={"epsilon": EPSILON}, ledger={"alone": alone})
    return made


def visits(agents: list[AgentProcess]) -> int:
    return sum(agent.status()["steps_done"] for agent in agents)


def test_one_model_walks_over_three_processes_and_outlives_a_kill(fleet: Fleet, tmp_path: Path) -> None:
    devices = walkers(fleet, tmp_path)
    with running(*devices) as agents:
        until(lambda: visits(agents) >= 4, "the walk is under way")
        agents[1].end(signal.SIGKILL)
        with AgentProcess(devices[1]) as again:
            agents[1] = again.ready()
            until(lambda: visits(agents) == 3 * VISITS, "every visit is made")
            for agent in agents:
                until(lambda agent=agent: agent.status()["model_age"] == 3 * VISITS, "it has seen the last model")  # type: ignore[misc]
            until(lambda: len({agent.model().tobytes() for agent in agents}) == 1, "one model goes round unchanged")
            statuses = [agent.status() for agent in agents]
            assert sum(status["walks_held"] for status in statuses) <= 1
            assert [agent.end() for agent in agents] == [0, 0, 0]
    for status in statuses:
        assert (status["state"], status["steps_done"], status["steps"]) == ("mixing", VISITS, VISITS)
        assert (status["privacy"]["status"], status["privacy"]["neighbouring"]) == ("proved", "replace-one")
        assert not status["refused"]["messages"]
    for device in devices:
        shown = document(sottovoce("ledger", "show", "--state", device.state, "--json").stdout)
        assert shown["charges"] == shown["releases"] == VISITS
        assert shown["spent_epsilon"] == pytest.approx(EPSILON)
        assert shown["spent_epsilon"] <= EPSILON


def test_a_device_without_records_hands_the_model_on(fleet: Fleet, tmp_path: Path) -> None:
    devices = walkers(fleet, tmp_path, 2)
    devices[1] = new_device(fleet, tmp_path / "empty", records=0, epsilon=EPSILON, neighbouring="replace-one")
    devices[0].configure([devices[1].entry()], learner={**WALK, "begins_walk": True}, privacy={"epsilon": EPSILON})
    devices[1].configure([devices[0].entry()], learner=WALK, privacy={"epsilon": EPSILON})
    with running(*devices) as agents:
        until(lambda: agents[0].status()["steps_done"] == VISITS, "the model comes back again and again")
        status = agents[1].status()
        assert (status["steps_done"], status["privacy"]["charges"]) == (0, 0)


def on_its_way_to_nobody(status: dict[str, Any]) -> bool:
    return status["walks_held"] == 0 and bool(status["peers"][0]["failures_in_a_row"] > 1)


def test_a_walk_waits_for_a_peer_that_is_down(fleet: Fleet, tmp_path: Path) -> None:
    devices = walkers(fleet, tmp_path, 2, alone=True)  # or the first step would wait for it, too
    with running(devices[0]) as (first,):
        until(lambda: on_its_way_to_nobody(first.status()), "the model is on its way to nobody")
        with running(devices[1]) as (second,):
            until(lambda: visits([first, second]) == 2 * VISITS, "it arrives, and goes on")


def test_it_wants_a_ledger_for_replacing_records(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "d").configure(learner=WALK, privacy={"neighbouring": "add-remove"})
    ended = sottovoce("agent", "run", "--config", device.config)
    assert ended.returncode == 5
    assert "takes the mean over its records, which shows how many there are" in ended.stderr


def test_the_testbed_runs_it_over_processes(tmp_path: Path) -> None:
    ended = sottovoce(
        "testbed", "--learner", "gradient-walk", "--agents", 3, "--cycles", 30, "--period", 0.1, "--epsilon", 50,
        "--set", "learner.budget=halving", "--set", "learner.visits=3", "--json",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    report = document(ended.stdout)
    check_report(report, agents=3)
    assert report["privacy"]["status"] == "proved"
    assert 0 < report["privacy"]["spent_epsilon_max"] <= 50 * 7 / 8
    assert 3 <= report["privacy"]["releases"] <= 9


@pytest.mark.parametrize("fidelity", ["sound", "paper"])
@pytest.mark.parametrize("model", ["pegasos", "logistic"])
def test_in_memory_it_learns(fidelity: str, model: str) -> None:
    words = ["testbed", "--learner", "gradient-walk", "--transport", "memory", "--cycles", 100, "--json",
             "--fidelity", fidelity, "--model", model, "--set", "data.bounds=[0,16]"]  # fmt: skip
    accuracies = []
    for epsilon in ("500", "inf"):
        ended = here(*words, "--epsilon", epsilon)
        assert ended.code == 0, ended.err
        report = document(ended.out)
        check_report(report, agents=12)
        assert report["privacy"]["status"] == ("none" if epsilon == "inf" else "proved")
        assert report["privacy"]["releases"] == 12
        accuracies.append(report["final"]["accuracy_mean"])
    assert accuracies[1] > 0.7
    assert accuracies[1] > accuracies[0] > 0.2


def test_to_the_letter_the_ranges_are_refuted(tmp_path: Path) -> None:
    words = ["testbed", "--learner", "gradient-walk", "--transport", "memory", "--agents", 3, "--cycles", 12,
             "--fidelity", "paper", "--json"]  # fmt: skip
    assert here(*words, "--epsilon", 5).code == 5
    allowed = here(*words, "--epsilon", 5, "--set", "privacy.allow_unproved=true")
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
def test_what_makes_no_sense_is_refused(settings: list[str], code: int, words: str) -> None:
    chosen = [word for setting in settings for word in ("--set", setting)]
    ended = here("testbed", "--learner", "gradient-walk", "--transport", "memory", "--cycles", 5, *chosen)
    assert (ended.code, words in ended.err) == (code, True), ended.err


def test_a_run_is_traced(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ended = here("testbed", "--learner", "gradient-walk", "--transport", "memory", "--agents", 3, "--cycles", 9,
                 "--trace", path)  # fmt: skip
    assert ended.code == 0, ended.err
    events = json.loads(path.read_text())["events"]
    assert sum(event["event"] == "answer" for event in events) >= 2
    assert max(walk["age"] for event in events if event.get("state") for walk in event["state"]["walks"]) >= 2
