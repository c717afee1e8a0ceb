"""Agent without memory: it neither spins nor ends without a log line, and continues once memory is available.

If a library such as gRPC cannot continue without memory, the process ends. Its log reports this, and a service manager
restarts it.
"""

import signal
import time
import urllib.request
from pathlib import Path

import pytest
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask
from sottovoce_operator.fleet import Fleet

from tests.support.devices import free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess
from tests.support.starvation import processor_share, without_memory
from tests.support.waiting import until

pytestmark = pytest.mark.process

SECONDS = 4.0
LINES = 400
MEBIBYTE = 2**20


def current_cycle(agent: AgentProcess, readers: Path) -> int:
    """Return the cycle that the agent reports to a reader; 0 if the agent is not working or unreachable."""
    try:
        return int(ask(agent.device.state, "status", 5.0, readers=readers, waiting=True).get("cycle", 0))
    except NetworkError:
        return 0


def scrape(address: str) -> None:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5.0) as answer:
            answer.read()
    except OSError:
        pass  # may fail while memory is short


@pytest.mark.parametrize("extra", [0, 2 * MEBIBYTE])
@pytest.mark.parametrize("transport", ["grpc", "mqtt"])
def test_an_agent_without_memory_recovers_or_logs_why_it_ended(tmp_path: Path, transport: str, extra: int) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    device, metrics, readers = new_device(fleet, tmp_path / "a"), f"127.0.0.1:{free_port()}", tmp_path / "readers.sock"
    mqtt_settings = {} if transport == "grpc" else {"mqtt": {"url": f"mqtt://127.0.0.1:{free_port()}"}}
    device.configure(
        agent={"readers_socket": str(readers), "bytes_per_day": 2**50},
        ledger={"bytes_per_day": 2**50, "alone": True},
        learner={"steps": 10_000, "period": 0.1, "model": "mlp", "hidden": 4096},
        observe={"metrics": metrics},
        transport={"use": [transport], **mqtt_settings},
    )
    with AgentProcess(device) as agent:
        until(lambda: agent.ready().status()["steps_done"] >= 1, "the agent works")
        pid, began = agent.process.pid, time.monotonic()
        with without_memory(pid, extra):
            while agent.process.poll() is None and time.monotonic() < began + SECONDS:
                current_cycle(agent, readers)
                scrape(metrics)
            if agent.process.poll() is None:
                share = processor_share(pid, SECONDS)
                assert share < 0.5, f"the agent uses {share:.2f} of a processor"
        assert len(agent.log().splitlines()) < LINES
        try:
            cycle_reached = until(
                lambda: agent.process.poll() is not None or current_cycle(agent, readers),
                "the agent works again or has ended",
            )
        except AssertionError:
            agent.process.send_signal(signal.SIGABRT)  # the log then shows where each thread waits
            agent.wait_for_end()
            print(agent.log())
            raise
        if (code := agent.process.poll()) is None:
            until(lambda: current_cycle(agent, readers) > cycle_reached, "cycles continue")
            assert agent.end() == 0
        else:
            print(log := agent.log())
            assert code != 0
            assert "Fatal Python error" in log or "fault" in log
