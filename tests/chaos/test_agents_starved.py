"""Agent without memory: it neither spins nor ends without a log line, and continues once memory is available.

If a library such as gRPC cannot continue without memory, the process ends. Its log reports this, and a service manager
restarts it.
"""

import resource
import time
import urllib.request
from pathlib import Path

import pytest
from sottovoce.agent.control import ask
from sottovoce.errors import NetworkError
from sottovoce.identity import Fleet

from tests.support.devices import free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess
from tests.support.starvation import address_space, limited, processor_share
from tests.support.waiting import until

SECONDS = 4.0
LINES = 400
MEBIBYTE = 2**20


def cycle(agent: AgentProcess, readers: Path) -> int:
    """The cycle that the agent reports to a reader; 0 where it is not at work or cannot be asked."""
    try:
        return int(ask(agent.device.state, "status", 5.0, readers=readers, waiting=True).get("cycle", 0))
    except NetworkError:
        return 0


def scraped(address: str) -> None:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5.0) as answer:
            answer.read()
    except OSError:
        pass  # that is allowed meanwhile


@pytest.mark.parametrize("extra", [0, 2 * MEBIBYTE])
@pytest.mark.parametrize("transport", ["grpc", "mqtt"])
def test_an_agent_without_memory_recovers_or_says_why_it_ended(tmp_path: Path, transport: str, extra: int) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    device, metrics, readers = new_device(fleet, tmp_path / "a"), f"127.0.0.1:{free_port()}", tmp_path / "readers.sock"
    way = {} if transport == "grpc" else {"mqtt": {"url": f"mqtt://127.0.0.1:{free_port()}"}}
    device.configure(
        agent={"readers_socket": str(readers), "bytes_per_day": 2**50},
        ledger={"bytes_per_day": 2**50, "alone": True},
        learner={"steps": 10_000, "period": 0.1, "model": "mlp", "hidden": 4096},
        observe={"metrics": metrics},
        transport={"use": [transport], **way},
    )
    with AgentProcess(device) as agent:
        until(lambda: agent.ready().status()["steps_done"] >= 1, "it is at work")
        pid, began = agent.process.pid, time.monotonic()
        with limited(pid, resource.RLIMIT_AS, address_space(pid) + extra):
            while agent.process.poll() is None and time.monotonic() < began + SECONDS:
                cycle(agent, readers)
                scraped(metrics)
            if agent.process.poll() is None:
                share = processor_share(pid, SECONDS)
                assert share < 0.5, f"it takes {share:.2f} of a processor"
        log = agent.log()
        assert len(log.splitlines()) < LINES
        at = until(lambda: agent.process.poll() is not None or cycle(agent, readers), "it is at work, or has ended")
        if (code := agent.process.poll()) is None:
            until(lambda: cycle(agent, readers) > at, "cycles continue")
            assert agent.end() == 0
        else:
            print(log)
            assert code != 0
            assert "Fatal Python error" in log or "fault" in log
