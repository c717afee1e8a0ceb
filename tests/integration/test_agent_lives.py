"""Real agents of two homes that differ in one record: status, metrics, log, files and exit codes are equal.

`tests/lives` compares fleets under a virtual clock; here, whole processes run, with real noise and clocks. What depends
on those is excepted below, each with its reason.
"""

import csv
import json
import re
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, draw_records, free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

STEPS = 5
LABELS = ("away", "home", "car")
MEASURED = {  # metrics and keys of the status that depend on the clock, the machine or the identity
    "sottovoce_uptime_seconds": "a clock",
    "sottovoce_process_": "the process's memory and processor time",
    "sottovoce_state_free_bytes": "the disk's free space",
    "sottovoce_certificate_": "the certificate's own dates",
    "sottovoce_wait": "how long this process waited for its disk and its timers",
    "sottovoce_event_loop_tasks": "tasks in flight at that moment",
    "sottovoce_learner_cycles_total": "a learner without peers keeps cycling until it is asked",
    "sottovoce_messages_since_received_seconds": "a clock",
    "sottovoce_written_today_bytes": "bytes of all files, of which the state is written once a cycle",
    "sottovoce_ledger_written_today_bytes": "see sottovoce_written_today_bytes",
    "python_": "the interpreter's garbage collector",
    "process_": "the process",
}


def _hold(device: Device, features: Any, labels: Any, *, differs: bool) -> None:
    """Write the device's records as CSV; the last one alone has its label, or another one."""
    path = device.state.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("a", "b", "c", "d", "state"))
        for row, label in zip(features[:-1], labels[:-1] % 2, strict=True):
            table.writerow((*row, LABELS[label]))
        table.writerow((*features[-1], LABELS[2 if differs else 0]))


def _run(fleet: Fleet, directory: Path, name: str, *, differs: bool) -> dict[str, Any]:
    """Run a device until it has spent its budget, and return all that others can see of it."""
    device = new_device(fleet, directory / name)
    _hold(device, *draw_records(60, 7), differs=differs)
    metrics = f"127.0.0.1:{free_port()}"
    device.configure(
        data={
            "source": f"csv:{device.state.with_suffix('.csv')}#label=state",
            "labels": list(LABELS),
            "columns": ["d", "c", "b", "a"],
        },
        learner={"steps": STEPS, "period": 0.05},
        observe={"metrics": metrics},
    )
    checked = sottovoce("config", "check", device.config)
    with AgentProcess(device) as agent:
        agent.ready()
        until(lambda: agent.status()["steps_done"] == STEPS, f"{name} has taken its steps")
        status = agent.status()
        with urlopen(f"http://{metrics}/metrics", timeout=10) as page:
            text = page.read().decode()
        code = agent.end()
        log = agent.log()

    def anonymous(line: str) -> str:
        for own in (device.id, str(device.state), name, metrics, device.address):
            line = line.replace(own, "…")
        return re.sub(r"^\S+ ", "", line)

    return {
        "exit code": (checked.returncode, code),
        "log": [anonymous(line) for line in log.splitlines()],
        "metrics": {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in text.splitlines() if line[:1] != "#"},
        "status": _shape(status),
        "privacy": {key: value for key, value in status["privacy"].items() if key != "mechanism"},
        "files": {file.name: file.stat().st_size for file in device.state.iterdir() if file.suffix == ".db"},
    }


def _shape(document: Any) -> Any:
    """Return a document's keys and the types of its values."""
    if isinstance(document, dict):
        return {key: _shape(value) for key, value in document.items()}
    return type(document).__name__ if not isinstance(document, list) else len(document)


def test_two_homes_look_the_same(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    one, other = (_run(fleet, tmp_path, name, differs=name == "one") for name in ("one", "two"))
    for seen in (one, other):
        seen["metrics"] = {
            name: value if not any(name.startswith(prefix) for prefix in MEASURED) else "…"
            for name, value in seen["metrics"].items()
        }
    assert json.dumps(one, indent=1).splitlines() == json.dumps(other, indent=1).splitlines()
