"""`sottovoce testbed` through a broker: equal learning, mixed fleets, and killed or missing brokers."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce_lab.testbed import broker
from sottovoce_lab.testbed.broker import OwnBroker, create_broker
from sottovoce_operator.fleet import create_fleet

from tests.support.command import document
from tests.support.devices import draw_records, free_port
from tests.support.mosquitto import MOSQUITTO, Broker
from tests.support.processes import processes_about, sottovoce
from tests.support.reports import check_report

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(400),
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Easy records, which suit small fleets and few cycles."""
    features, labels = draw_records(400, 1)
    path = tmp_path_factory.mktemp("data") / "records.npz"
    np.savez(path, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    return f"npz:{path}"


def run_report(*arguments: object, agents: int) -> tuple[dict[str, Any], str]:
    """Run the testbed; return its report and its other output."""
    completed = sottovoce("testbed", "--json", "--agents", agents, *arguments, seconds=300)
    assert completed.returncode == 0, completed.stderr
    report = document(completed.stdout)
    check_report(report, agents=agents)
    assert report["privacy"]["ledgers_agree"]
    return report, completed.stderr


@pytest.mark.smoke
def test_a_fleet_learns_through_the_hardened_broker_and_leaves_nothing_behind(data: str, tmp_path: Path) -> None:
    directory = tmp_path / "fleet"
    chosen = ("--data", data, "--cycles", 20, "--period", 0.2, "--epsilon", 20)
    report, _ = run_report("--transport", "mqtt", *chosen, "--set", f"testbed.directory={directory}", agents=4)
    assert report["run"]["transport"] == "mqtt"
    assert report["final"]["accuracy_min"] > 0.9
    assert report["traffic"]["messages"] >= 4
    assert (directory / "broker" / "mosquitto.conf").read_text().count("require_certificate true") == 1
    assert not processes_about(str(directory))


def test_learning_continues_after_a_killed_broker_returns(data: str) -> None:
    chosen = ("--data", data, "--cycles", 40, "--period", 0.2, "--epsilon", 20, "--fault", "broker-kill=1s@cycle:8")
    report, _ = run_report("--transport", "mqtt", *chosen, agents=4)
    assert report["final"]["accuracy_min"] > 0.9
    assert report["faults"] == ["broker-kill=1s@cycle:8"]


def test_single_transport_agents_learn_together_through_agents_with_both(data: str) -> None:
    chosen = ("--data", data, "--cycles", 40, "--period", 0.2, "--epsilon", 20)
    report, _ = run_report("--transport", "mixed", *chosen, agents=5)
    assert report["final"]["accuracy_min"] > 0.9
    assert report["run"]["topology"] == "newscast"


def test_a_custom_broker_is_used_and_a_missing_one_is_named(data: str, tmp_path: Path) -> None:
    chosen = ("--transport", "mqtt", "--data", data, "--cycles", 5, "--period", 0.1)
    with Broker(tmp_path / "broker") as running:
        run_report(*chosen, "--set", f"transport.mqtt.url={running.url}", agents=2)
        assert "New client connected" in running.log()
    url = f"mqtt://127.0.0.1:{free_port()}"
    completed = sottovoce("testbed", *chosen, "--agents", 2, "--set", f"transport.mqtt.url={url}")
    assert completed.returncode == 7
    assert "does not answer: start it, or correct transport.mqtt.url" in completed.stderr


@pytest.mark.parametrize(
    "words, says",
    [
        (["--transport", "mixed", "--topology", "ring"], "not every agent can reach every other"),
        (["--transport", "grpc", "--fault", "broker-kill=1s@cycle:2"], "requires --transport mqtt or mixed"),
        (["--transport", "mqtt", "--fault", "broker-kill=soon@cycle:2"], "like broker-kill=3s@cycle:20"),
        (["--transport", "mqtt", "--set", "transport.mqtt.realm=other"], "the testbed sets this key itself"),
        (["--transport", "mqtt", "--set", "transport.mqtt.host=here"], "unknown key"),
        (
            ["--transport", "mqtt", "--set", "transport.mqtt.url=mqtt://far.example"],
            "without TLS, the broker must be on this host",
        ),
    ],
)
def test_impossible_options_are_refused_before_anything_starts(words: list[str], says: str) -> None:
    completed = sottovoce("testbed", "--agents", 3, *words)
    assert completed.returncode in (2, 3), completed.stderr
    assert says in completed.stderr


def test_without_mosquitto_the_embedded_broker_serves_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.shutil, "which", lambda *_, **__: None)  # type: ignore[attr-defined]
    port = free_port()
    chosen = create_broker(create_fleet(tmp_path / "fleet", "by-hand"), tmp_path, port, None)
    assert isinstance(chosen, OwnBroker)
    assert "embedded" in chosen.description
    assert chosen.settings == {"url": f"mqtt://127.0.0.1:{port}", "version": "3.1.1"}
    chosen.start()
    try:
        completed = sottovoce(
            *("testbed", "--json", "--transport", "mqtt", "--agents", 2, "--data", "breast-cancer", "--cycles", 5),
            *("--period", 0.2, "--set", f"transport.mqtt.url={chosen.settings['url']}"),
            *("--set", "transport.mqtt.version=3.1.1"),
        )
        assert completed.returncode == 0, completed.stderr
        assert document(completed.stdout)["traffic"]["messages"] > 0
    finally:
        chosen.stop()
    assert sys.modules.get("amqtt") is None  # it is a separate process
