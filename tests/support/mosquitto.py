"""Real Mosquitto on a port of its own, for tests that need a broker."""

import getpass
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.support.waiting import TIMEOUT, until

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


class Broker:
    """Mosquitto that a test starts, ends and kills. A context manager: the broker runs inside the `with`.

    Args:
        directory: directory for configuration, log and, if configured, persistence; created if missing.
        config_lines: lines of mosquitto.conf. Without a `listener` line, a listener for plain MQTT on 127.0.0.1 at
            `port` with anonymous access precedes them. `{port}` and `{directory}` are filled in.
    """

    def __init__(self, directory: Path, *, config_lines: Sequence[str] = ()) -> None:
        if MOSQUITTO is None:
            pytest.skip("mosquitto is not installed")
        directory.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._log = directory / "mosquitto.log"
        self._file = directory / "mosquitto.conf"
        lines = [line.replace("{port}", str(self.port)).replace("{directory}", str(directory)) for line in config_lines]
        if not any(line.startswith("listener ") for line in lines):
            lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true", *lines]
        if not any(line.startswith("user ") for line in lines):
            lines.insert(0, f"user {getpass.getuser()}")  # otherwise root becomes a user who may not read the directory
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> Self:
        """Start the broker, and wait until it accepts connections."""
        assert self.process is None, "it is already running"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(MOSQUITTO), "-c", str(self._file)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(self._accepts, f"the broker accepts connections; it said:\n{self.log()}")
        return self

    def stop(self) -> None:
        """End the broker by SIGTERM, so that it saves its persistent data. Do nothing if it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker by SIGKILL. Do nothing if it is not running."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the broker and restart it on its port."""
        self.stop()
        self.start()

    def log(self) -> str:
        """Return the broker's log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def _end(self, signum: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signum)
        self.process.wait(timeout=TIMEOUT)
        self.process = None

    def _accepts(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the broker ended at once:\n{self.log()}"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return True
        except OSError:
            return False


class HardenedBroker(Broker):
    """Broker configured as shipped, with mutual TLS and access control."""

    def __init__(self, configuration: Path, port: int) -> None:
        super().__init__(configuration.parent / "run")
        self._file, self.port = configuration, port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
