"""Agent that has used its daily write allowance: it slows down, and reports it."""

import subprocess
import sys
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.processes import running
from tests.support.waiting import until

pytestmark = pytest.mark.process

LIMIT = 2**20
A_CYCLE = 2**18  # bytes, and more than any cycle writes
_WRITES = "import os, resource; f = open({!r}, 'wb'); f.write(bytes(2**20)); f.flush(); os.fsync(f.fileno())"
_COUNTS = "print(resource.getrusage(resource.RUSAGE_SELF).ru_oublock)"


def test_an_agent_over_its_write_allowance_slows_down_but_never_stops(fleet: Fleet, tmp_path: Path) -> None:
    if not _write_count_available(tmp_path):
        pytest.skip("the system counts nothing that is written here: let the tests' temporary files be on a disk")
    one, other = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    for device, peer in ((one, other), (other, one)):
        device.configure([peer.entry()], learner={"steps": 3}, agent={"bytes_per_day": LIMIT})
    with running(one, other) as agents:
        (wait,) = until(
            lambda: [wait for wait in agents[0].status()["waiting"] if wait["name"] == "disk-wear"], "the agent pauses"
        )
        assert "agent.bytes_per_day" in wait["reason"]
        used = agents[0].status()["resources"]
        assert LIMIT / 4 <= used["written_bytes_today"] < LIMIT + A_CYCLE
        assert used["bytes_per_day"] == LIMIT
        assert len(agents[0].lines("device-rests")) == 1
        assert agents[0].end() == 0, "stopping the agent ends the pause"


def _write_count_available(directory: Path) -> bool:
    script = "; ".join((_WRITES.format(str(directory / "file")), _COUNTS))
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return int(output) * 512 >= 2**20
