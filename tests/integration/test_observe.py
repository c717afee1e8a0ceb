"""Monitoring a real agent: its metrics, the queries in alerts and panels, and its behaviour under load."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sottovoce.ops.metrics import CATALOGUE
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, free_port, new_device
from tests.support.monitoring import TARGET_LABELS, expressions, get
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

SYNTHETIC = {"up": set[str](), "ALERTS": {"alertstate", "alertname", "severity"}}
"""Metrics that Prometheus itself adds, with their labels."""

DISK = {
    "sottovoce_ledger_bytes",
    "sottovoce_ledger_written_today_bytes",
    "sottovoce_ledger_written_today_limit_bytes",
    "sottovoce_resting_until_timestamp_seconds",
    "sottovoce_state_free_bytes",
    "sottovoce_written_today_bytes",
    "sottovoce_written_today_limit_bytes",
}
"""Metrics that only an address of this machine serves, even with a separate vault."""

RESULTS = {
    name: {entry.label} if entry.label else set[str]()
    for name, entry in CATALOGUE.items()
    if name.startswith("sottovoce_result_")
}
"""Metrics that exist once a secure sum has opened and its owner has it served, with their labels."""

TIMED = re.compile(r"_seconds(_total)?$|cycles_total|event_loop_tasks|sottovoce_waits|deliveries_failed")
"""Metrics that depend on when the page was read."""

# `sottovoce agent run` whose core hangs once a file exists
_STUCK = """
import sys, threading
from pathlib import Path
from sottovoce.node.core import Core
fire = Core.fire
sign = Path(sys.argv[2])
def stuck(self, name, now):
    if sign.exists():
        threading.Event().wait()
    return fire(self, name, now)
Core.fire = stuck
from sottovoce.cli.main import main
sys.argv = ["sottovoce", "agent", "run", "--config", sys.argv[1]]
main()
"""


def checks(port: int, path: str) -> dict[str, Any]:
    """Return a health page's findings."""
    result: dict[str, Any] = json.loads(get(port, path)[1])["checks"]
    return result


def samples(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the currently exported labels and values, by metric."""
    results: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(get(port, "/metrics")[1]):
        for sample in family.samples:
            results.setdefault(sample.name, []).append((sample.labels, sample.value))
    return results


def value(port: int, metric: str) -> float:
    """Return the value of a metric without labels."""
    ((_, result),) = samples(port)[metric]
    return result


def configure_device(device: Device, peer: Device, **observe: object) -> Device:
    return device.configure(
        [peer.entry()],
        membership={"sampling": "newscast", "period": 0.5},
        learner={"period": 0.1, "steps": 5},
        observe=observe,
    )


@pytest.fixture(scope="module")
def monitored_agent(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentProcess, int]]:
    """An agent that has learnt and received, and its monitoring port."""
    directory, port = tmp_path_factory.mktemp("watched"), free_port()
    one, other = (new_device(fleet, directory / name) for name in ("one", "other"))
    configure_device(one, other, metrics=f"127.0.0.1:{port}")
    configure_device(other, one)
    with running(one, other) as (agent, _):
        until(lambda: value(port, "sottovoce_learner_steps_done") == 5, "it has completed its steps")
        until(lambda: value(port, "sottovoce_messages_received_total") > 0, "it has received a message")
        yield agent, port


def test_exactly_the_documented_metrics_are_exported(monitored_agent: tuple[AgentProcess, int]) -> None:
    exported = samples(monitored_agent[1])
    assert set(exported) == CATALOGUE.keys() - RESULTS.keys()
    for name, found in exported.items():
        label = CATALOGUE[name].label
        assert all(set(labels) == ({label} if label else set()) for labels, _ in found), name


def test_every_metric_and_label_in_alerts_and_panels_is_exported(monitored_agent: tuple[AgentProcess, int]) -> None:
    exported = samples(monitored_agent[1])
    assert len(expressions()) > 40
    for expression in expressions():
        labels = set(TARGET_LABELS)
        for selector in expression.selectors:
            elsewhere = {**SYNTHETIC, **RESULTS}
            assert selector.metric in exported or selector.metric in elsewhere, f"{expression.where}: {selector.metric}"
            series = [labels for labels, _ in exported.get(selector.metric, ())]
            own = {name for labels in series for name in labels} | elsewhere.get(selector.metric, set())
            for name, operator, wanted in selector.matchers:
                assert name in own | TARGET_LABELS, f"{expression.where}: {selector.metric} has no label {name}"
                if operator == "=" and name in own and name not in ("transport", "alertstate"):
                    assert wanted in {labels[name] for labels in series}, f"{expression.where}: no {name} is {wanted}"
            labels |= own
        assert expression.grouped | expression.shown <= labels, expression.where


def test_exported_values_agree_with_the_status(monitored_agent: tuple[AgentProcess, int]) -> None:
    agent, port = monitored_agent
    status = agent.status()
    assert value(port, "sottovoce_privacy_epsilon_spent") == status["privacy"]["spent_epsilon"]
    assert value(port, "sottovoce_privacy_epsilon_limit") == 2.0
    assert value(port, "sottovoce_privacy_charges_total") == status["privacy"]["charges"] == 5
    assert value(port, "sottovoce_peers_known") == 1
    sent = status["traffic"]["messages"]
    until(
        lambda: value(port, "sottovoce_messages_sent_total") >= sent > 0, "the cached page is refreshed after a second"
    )
    assert value(port, "sottovoce_ledger_bytes") > 4096


def test_metrics_do_not_identify_peers(monitored_agent: tuple[AgentProcess, int]) -> None:
    agent, port = monitored_agent
    text = get(port, "/metrics")[1] + get(port, "/readyz")[1] + get(port, "/livez")[1]
    (peer,) = agent.status()["peers"]
    assert peer["id"] not in text
    assert peer["address"] not in text


def test_the_agent_is_live_and_ready(monitored_agent: tuple[AgentProcess, int]) -> None:
    _, port = monitored_agent
    assert get(port, "/livez")[0] == get(port, "/readyz")[0] == 200
    assert checks(port, "/livez") == {"loop": "ok", "core": "ok"}
    assert checks(port, "/readyz") == {"identity": "ok", "ledger": "ok", "transport": "ok"}


def test_many_simultaneous_requests_are_answered_while_the_agent_learns(
    monitored_agent: tuple[AgentProcess, int],
) -> None:
    _, port = monitored_agent
    before = value(port, "sottovoce_learner_cycles_total")
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda path: get(port, path)[0], ["/metrics", "/livez", "/readyz", "/no"] * 60))
    assert (answers.count(200), answers.count(404)) == (180, 60)
    until(lambda: value(port, "sottovoce_learner_cycles_total") > before, "it continues")


@pytest.mark.parametrize("sent", [b"", b"\x00" * 20, b"GET /metrics HTTP/1.1\r\n", b"A" * 100_000, b"\r\n\r\n"])
def test_the_agent_continues_whatever_input_it_receives(monitored_agent: tuple[AgentProcess, int], sent: bytes) -> None:
    _, port = monitored_agent
    with socket.create_connection(("127.0.0.1", port)) as connection:
        try:
            connection.sendall(sent)
        except OSError:
            assert len(sent) > 8192, "only an endless sender is disconnected"
    assert get(port, "/livez")[0] == 200


def test_an_agent_with_a_stuck_core_is_not_live_and_metrics_show_it(fleet: Fleet, tmp_path: Path) -> None:
    device, port, sign = new_device(fleet, tmp_path / "a"), free_port(), tmp_path / "stuck"
    device.configure([], learner={"period": 0.1, "steps": 5}, observe={"metrics": f"127.0.0.1:{port}"})
    process = subprocess.Popen([sys.executable, "-c", _STUCK, device.config, sign], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port) and get(port, "/livez")[0] == 200, "it is alive")
        sign.touch()
        status, body = until(lambda: _unhealthy(port), "it is no longer alive") or (0, "")
        assert (status, json.loads(body)["checks"]) == (
            503,
            {"loop": "ok", "core": "the core has not responded for 5 s"},
        )
        assert get(port, "/metrics")[0] == 200
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        get(port, "/readyz")
    except OSError:
        return False
    return True


def _unhealthy(port: int) -> tuple[int, str] | None:
    answer = get(port, "/livez")
    return answer if answer[0] != 200 else None


def test_an_address_in_use_stops_the_agent_with_a_remedy(fleet: Fleet, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        device = new_device(fleet, tmp_path / "a").configure([], observe={"metrics": f"127.0.0.1:{port}"})
        with AgentProcess(device) as agent:
            assert agent.wait_for_end() == 7
            assert "address already in use: stop the program that uses it" in agent.log()


def test_other_machines_do_not_see_memory_and_the_agent_stops_cleanly(fleet: Fleet, tmp_path: Path) -> None:
    port = free_port()
    device = new_device(fleet, tmp_path / "a")
    device.configure(
        [],
        agent={"state": device.state.name, "log_format": "json"},
        observe={"metrics": f"0.0.0.0:{port}", "allow_remote": True},
    )
    with AgentProcess(device) as agent:
        agent.ready()
        exported = set(samples(port))
        assert {name for name in CATALOGUE if name not in exported} == {
            *DISK,
            *RESULTS,
            "sottovoce_process_cpu_seconds_total",
            "sottovoce_process_memory_limit_bytes",
            "sottovoce_process_resident_memory_bytes",
            "sottovoce_view_exchanges_total",
            "sottovoce_view_records_refused_total",
        }
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.sendall(b"GET /metrics")
            assert agent.end(signal.SIGTERM) == 0
        events = [json.loads(line)["event"] for line in agent.log().splitlines()]
        assert events == ["ready", "stopped"]


def test_neighbouring_records_have_the_same_page_and_the_same_ledger_size(fleet: Fleet, tmp_path: Path) -> None:
    """Golf enrols its records: 3 records of 58 features, which are all zero, or do not compress."""
    pages, sizes = [], []
    for name, features in (("zero", np.zeros((3, 58))), ("random", np.random.default_rng(0).uniform(0, 1, (3, 58)))):
        device = new_device(fleet, tmp_path / name, neighbouring="replace-one").hold(features, np.array([0, 1, 0]))
        pages.append(_page_after_golf(device, free_port()))
        sizes.append(device.ledger.stat().st_size)
    assert pages[0] == pages[1]
    assert sizes[0] == sizes[1]


def _page_after_golf(device: Device, port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return what other machines see once a device with 3 records of 58 features has released them."""
    device.configure(
        data={"source": f"npz:{device.records}", "features": 58, "classes": 3, "expected_records": 3, "bounds": [0, 1]},
        learner={"name": "golf", "period": 0.1},
        privacy={"epsilon": 2.0, "neighbouring": "replace-one"},
        observe={"metrics": f"0.0.0.0:{port}", "allow_remote": True},
    )
    with AgentProcess(device) as agent:
        agent.ready()
        until(lambda: value(port, "sottovoce_privacy_releases_total") == 3, "it has released its records")
        page = {name: found for name, found in samples(port).items() if not TIMED.search(name)}
        assert agent.end() == 0
    return page
