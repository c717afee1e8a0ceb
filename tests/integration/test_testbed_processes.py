"""`sottovoce testbed` with real processes: reports, ledgers, faults, and nothing left behind."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.errors import NetworkError
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.vault import Ledger

from tests.support.command import document
from tests.support.devices import draw_records
from tests.support.processes import SOTTOVOCE, processes_about, sottovoce
from tests.support.reports import check_report
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Easy records, which suit small fleets and few cycles."""
    features, labels = draw_records(400, 1)
    path = tmp_path_factory.mktemp("data") / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{path}"


def run_report(*arguments: object, agents: int) -> dict[str, Any]:
    """Return a run's report, its only standard output."""
    completed = sottovoce("testbed", "--json", "--agents", agents, *arguments, seconds=300)
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=agents)
    assert report["run"]["transport"] == "grpc"
    return report


def ledgers(directory: Path) -> dict[str, tuple[float, int]]:
    """Return each device's spent ε and releases, read from a finished fleet's ledgers."""
    results = {}
    for path in directory.glob(f"agent-*/{LEDGER}"):
        ledger = Ledger.read(path)
        spending = ledger.spending()
        results[ledger.owner] = (spending.epsilon, spending.releases)
        ledger.close()
    return results


@pytest.mark.smoke
def test_four_agents_learn_digits_and_their_ledgers_agree_with_the_report(tmp_path: Path) -> None:
    directory = tmp_path / "fleet"
    report = run_report(
        # On a busy machine an agent waits for the others' answers in many cycles: it has four times as many as steps.
        *("--data", "digits", "--cycles", 32, "--period", 0.1, "--set", "learner.steps=8"),
        *("--set", f"testbed.directory={directory}", "--report", tmp_path / "report.json"),
        agents=4,
    )
    assert report["final"]["accuracy_mean"] > 0.6
    assert (report["privacy"]["epsilon"], report["privacy"]["delta"]) == (2.0, 1e-5)
    assert report["privacy"]["unit"] == "record"
    stored = ledgers(directory)
    assert {agent["id"]: (agent["epsilon_spent"], agent["releases"]) for agent in report["agents"]} == stored
    assert all(0 < spent <= 2.0 for spent, _ in stored.values())
    assert [warning for warning in report["warnings"] if "a device reaches alone" not in warning] == []
    # each agent sends a share in its first cycle; the number of further shares depends on the confirmations
    assert report["traffic"]["messages"] >= 4
    assert report["traffic"]["payload_bytes"] >= 4 * 8 * 65 * 10
    assert 20 < report["resources"]["rss_mib_median"] < 160
    assert document((tmp_path / "report.json").read_text()) == report
    assert not processes_about(str(directory))
    repeated = sottovoce("testbed", "--agents", 1, "--set", f"testbed.directory={directory}")
    assert repeated.returncode == 2, "a fleet never replaces another"


def test_killed_and_restarted_agents_do_not_stop_the_others(data: str) -> None:
    report = run_report(
        *("--data", data, "--cycles", 30, "--period", 0.1, "--epsilon", 20),
        *("--fault", "kill=0.5@cycle:8", "--fault", "restart=0.5@cycle:14"),
        agents=4,
    )
    assert sum(agent["alive"] for agent in report["agents"]) == 3
    assert all(agent["cycles"] >= 30 for agent in report["agents"] if agent["alive"])
    assert all(agent["epsilon_spent"] <= 20 for agent in report["agents"])
    assert report["final"]["accuracy_min"] > 0.8


def test_a_noiseless_star_under_loss_duplication_and_delay(data: str) -> None:
    faults = ["loss=0.2", "duplicate=0.2", "delay=20ms±10ms"]
    words = [word for fault in faults for word in ("--fault", fault)]
    report = run_report(
        *("--data", data, "--learner", "push-sum", "--topology", "star", "--cycles", 15, "--period", 0.1, *words),
        agents=3,
    )
    assert report["faults"] == faults
    assert report["privacy"]["epsilon"] is None
    assert report["privacy"]["status"] == "none"
    assert [agent["peers"] for agent in report["agents"]] == [2, 1, 1]
    assert report["final"]["accuracy_min"] > 0.9


@pytest.mark.parametrize("topology, agents, peers", [("disconnected", 2, 0), ("ring", 2, 1), ("exponential", 1, 0)])
def test_the_smallest_fleets(data: str, topology: str, agents: int, peers: int) -> None:
    report = run_report("--data", data, "--topology", topology, "--cycles", 5, "--period", 0.05, agents=agents)
    assert [agent["peers"] for agent in report["agents"]] == [peers] * agents


def test_killing_all_agents_is_not_a_defect(data: str) -> None:
    arguments = ("--cycles", 20, "--period", 0.1, "--fault", "kill=1@cycle:3")
    completed = sottovoce("testbed", "--data", data, "--agents", 1, *arguments)
    assert completed.returncode == 7
    assert "no surviving agent has a model" in completed.stderr


@pytest.fixture
def fleet_parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory in which a testbed creates its fleet, with a short path, as local sockets require."""
    return tmp_path_factory.mktemp("t")


@pytest.fixture
def endless_testbed(request: pytest.FixtureRequest, data: str, fleet_parent: Path) -> Iterator[subprocess.Popen[str]]:
    """A testbed that would run for an hour, once its agents work; the parameter determines how it starts them."""
    command = [SOTTOVOCE, "testbed", "--agents", "3", "--data", data, "--cycles", "36000", "--period", "0.1", "--json"]
    with subprocess.Popen(
        [*command, "--isolate", getattr(request, "param", "fork")],
        env={**os.environ, "TMPDIR": str(fleet_parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:

        def at_work() -> bool:
            assert process.poll() is None, process.communicate()
            return len(list(fleet_parent.glob("*/agent-*/state.db"))) == 3

        try:
            until(at_work, "all agents are working")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_testbed_leaves_no_process_and_no_file(
    endless_testbed: subprocess.Popen[str], fleet_parent: Path, signum: signal.Signals
) -> None:
    endless_testbed.send_signal(signum)
    out, err = endless_testbed.communicate(timeout=TIMEOUT)
    assert endless_testbed.returncode == 130
    assert not out or document(out)["run"]["interrupted_at"] >= 0, "a report, if anything was measured by then"
    assert err.endswith("sottovoce: interrupted\n")
    assert "Traceback" not in err
    assert processes_about(str(fleet_parent)) == []
    assert list(fleet_parent.iterdir()) == []


def test_an_interrupted_testbed_reports_its_results_so_far(data: str, fleet_parent: Path) -> None:
    file = fleet_parent / "report.json"
    command = [SOTTOVOCE, "testbed", "--agents", "3", "--data", data, "--cycles", "36000", "--period", "0.05"]
    command += ["--report", str(file), "--set", f"testbed.directory={fleet_parent}/fleet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until((fleet_parent / "fleet" / "progress.json").exists, "there is a measurement")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (130, "sottovoce: interrupted\n")
    assert " mean, " in out
    assert "interrupted at cycle" in out
    report = document(file.read_text())
    check_report(report, agents=3)
    assert 0 <= report["run"]["interrupted_at"] < 36000


def fork_server(fleet_parent: Path) -> int:
    """Return the id of the process that forked the others."""
    result = processes_about(str(fleet_parent))
    (server,) = (pid for pid in result if (Path(f"/proc/{pid}/task/{pid}/children")).read_text().split())
    return server


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("endless_testbed, processes", [("fork", 4), ("exec", 3)], indirect=["endless_testbed"])
def test_agents_end_by_themselves_when_the_testbed_is_killed(
    endless_testbed: subprocess.Popen[str], fleet_parent: Path, processes: int
) -> None:
    assert len(processes_about(str(fleet_parent))) == processes
    endless_testbed.kill()
    endless_testbed.communicate(timeout=TIMEOUT)
    until(lambda: not processes_about(str(fleet_parent)), "the agents have ended")
    for log in fleet_parent.glob("*/agent-*/log"):
        assert re.search(r"INFO stopped id=", log.read_text()), "cleanly"


def test_forked_agents_are_separate_processes(endless_testbed: subprocess.Popen[str], fleet_parent: Path) -> None:
    server = fork_server(fleet_parent)
    agents = [pid for pid in processes_about(str(fleet_parent)) if pid != server]
    assert [(parent(pid), os.getsid(pid)) for pid in agents] == [(server, pid) for pid in agents]
    assert len(list(Path(f"/proc/{server}/task").iterdir())) == 1, "there was no other thread when they were forked"
    opened = {str(link.readlink()) for link in Path(f"/proc/{server}/fd").iterdir()}
    assert not [path for path in opened if "agent-" in path], "it has none of their keys, data or logs"


def test_a_testbed_ends_without_its_fork_server_and_reports_it(
    endless_testbed: subprocess.Popen[str], fleet_parent: Path
) -> None:
    os.kill(fork_server(fleet_parent), signal.SIGKILL)
    _, err = endless_testbed.communicate(timeout=TIMEOUT)
    assert endless_testbed.returncode == NetworkError.exit_code, err
    assert "the testbed's fork server ended with -9" in err
    until(lambda: not processes_about(str(fleet_parent)), "the agents have ended")


def test_an_impossible_setting_is_reported_before_anything_starts(data: str) -> None:
    completed = sottovoce("testbed", "--agents", 2, "--data", data, "--set", "transport.timeout=0")
    assert (completed.returncode, completed.stdout) == (3, "")
    assert "transport.timeout: Expected `float` > 0.0" in completed.stderr
