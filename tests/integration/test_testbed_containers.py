"""Compose testbed with processes in place of its containers: prepared, trained, reported."""

import getpass
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
import tomlkit
from sottovoce_lab.testbed.containers.prepare import prepare
from sottovoce_lab.testbed.containers.results import results
from sottovoce_lab.testbed.containers.settings import ContainerSettings

from tests.support.devices import draw_records, free_port
from tests.support.mosquitto import MOSQUITTO
from tests.support.reports import check_report
from tests.support.waiting import until

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(200),
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed"),
]
_DEVICE = """
import sys
from pathlib import Path
from sottovoce_lab.testbed.containers.device import run
sys.exit(run(Path(sys.argv[1]), sys.argv[3:], sys.argv[2], "127.0.0.1"))
"""


def test_containers_learn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    features, labels = draw_records(300, 1)
    data = tmp_path / "records.npz"
    np.savez(data, X=features, y=labels, classes=3, bounds=np.array([[0.0] * 4, [1.0] * 4]))
    chosen = {
        "AGENTS": "3",
        "DATA": f"npz:{data}",
        "EPSILON": "20",
        "CYCLES": "50",
        "PERIOD": "0.2",
        "TRANSPORT": "mqtt",
    }
    request = ContainerSettings.read({f"SOTTOVOCE_{name}": value for name, value in chosen.items()})
    for name in ("authority", "broker", "places"):
        (tmp_path / name).mkdir()
    root, port = tmp_path / "places", free_port()
    prepare(request, tmp_path / "authority", tmp_path / "broker", root, host="127.0.0.1", port=port, home=None)
    configuration = tmp_path / "broker/sottovoce/mosquitto.conf"
    with configuration.open("a") as file:
        file.write(f"user {getpass.getuser()}\n")
    metrics = f"127.0.0.1:{free_port()}"
    template = root / "000/agent.toml"
    tables = tomlkit.parse(template.read_text())
    tables["observe"] = {"metrics": metrics}
    template.write_text(tomlkit.dumps(tables))
    running = [_start([str(MOSQUITTO), "-c", str(configuration)], tmp_path, "broker")]
    try:
        for number in range(3):
            faults = ["loss=0.3", "delay=20ms"] if number == 2 else []
            command = [sys.executable, "-c", _DEVICE, str(root), f"container-{number}", *faults]
            running.append(_start(command, tmp_path, f"tmp-{number}"))
        page = until(lambda: _fetched(f"http://{metrics}/metrics", running, tmp_path), "a device shows its metrics")
        report = results(request, root)
    finally:
        for process in reversed(running):
            process.terminate()
        completed = [process.wait(60) for process in reversed(running)]
    assert completed == [0, 0, 0, 0]
    assert page is not None
    assert "sottovoce_privacy_epsilon_spent" in page
    check_report(report, agents=3)
    assert report["final"]["accuracy_min"] > 0.9
    assert report["privacy"]["ledgers_agree"]
    assert report["run"]["transport"] == "mqtt"
    assert report["faults"] == ["delay=20ms", "loss=0.3"]
    assert "fault loss=0.3 was injected for 1 of 3 agents" in report["warnings"]
    assert 0 <= report["resources"]["ready_s_median"] < 60
    assert "watching 3 containers" in capsys.readouterr().err
    assert {str((slot / "owner").readlink()) for slot in root.iterdir() if slot.is_dir()} == {
        "container-0",
        "container-1",
        "container-2",
    }


def _fetched(url: str, running: list[subprocess.Popen[bytes]], directory: Path) -> str | None:
    """Return a page, or None if nothing answers; fail with the logs if a process has ended."""
    logs = "\n".join(path.read_text() for path in sorted(directory.glob("*.log")))
    assert all(process.poll() is None for process in running), logs
    try:
        with urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def _start(command: list[str], directory: Path, name: str) -> subprocess.Popen[bytes]:
    own = directory / name  # each process has its own /tmp, as in a container
    own.mkdir(exist_ok=True)
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command, env={**os.environ, "TMPDIR": str(own)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
