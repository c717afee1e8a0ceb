"""A testbed's MQTT broker: the user's own if configured, else hardened Mosquitto, else the embedded broker."""

import getpass
import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from sottovoce.config import MqttSection
from sottovoce.errors import NetworkError
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.mosquitto import write_broker

_START_SECONDS = 20.0
_STOP_SECONDS = 10.0
_SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin"
HOST = "127.0.0.1"


class TestbedBroker(Protocol):
    """A broker for a run.

    Attributes:
        description: a description of the broker, for messages.
        settings: the agents' settings under `[transport.mqtt]`.
    """

    description: str
    settings: dict[str, Any]

    def start(self) -> None:
        """Start the broker, and wait until it accepts connections.

        Raises:
            NetworkError: if the broker does not accept connections in time.
        """
        ...

    def kill(self) -> None:
        """Kill the broker (kill -9)."""
        ...

    def stop(self) -> None:
        """Stop the broker, gracefully if possible."""
        ...


class ExternalBroker:
    """A broker that the user runs and that the testbed neither starts nor stops.

    Args:
        host: the broker's host.
        port: the port that the broker listens on.
    """

    def __init__(self, host: str, port: int) -> None:
        self.description = f"the broker {host}:{port}"
        self.settings: dict[str, Any] = {}
        self._address = host, port

    def start(self) -> None:
        """Check that the broker answers.

        Raises:
            NetworkError: if the broker does not answer.
        """
        if not _accepts(*self._address):
            raise NetworkError(f"{self.description} does not answer: start it, or correct transport.mqtt.url")

    def kill(self) -> None:
        """Refuse to kill the broker, which does not belong to the testbed.

        Raises:
            NetworkError: always.
        """
        raise NetworkError("--fault broker-kill=…: the testbed can kill only its own broker; omit transport.mqtt.url")

    def stop(self) -> None:
        """Do nothing, because the broker does not belong to the testbed."""


class OwnBroker:
    """A broker process that the testbed runs on this host.

    Args:
        description: a description of the broker, for messages.
        command: the command that starts the broker.
        port: the port that the broker listens on.
        settings: the agents' settings under `[transport.mqtt]`.
        log: the broker's log file.
    """

    def __init__(self, description: str, command: list[str], port: int, settings: dict[str, Any], log: Path) -> None:
        self.description = description
        self.settings = settings
        self._command = command
        self._port = port
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the broker process, and wait until it accepts connections; see TestbedBroker.start."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not _accepts(HOST, self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_lines = self._log.read_text(errors="replace").strip().splitlines()
                raise NetworkError(
                    f"{self.description} did not start; see {self._log}: {log_lines[-1] if log_lines else 'empty'}"
                )
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the broker (kill -9)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if the broker does not end in time."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None


def create_broker(fleet: Fleet, directory: Path, port: int, external: MqttSection | None) -> TestbedBroker:
    """Return the broker for a run, without starting it.

    Args:
        fleet: the fleet in the run.
        directory: the run directory.
        port: a free port on this host.
        external: settings for connecting to a broker that the user runs; None for a broker that the testbed runs.

    Raises:
        NetworkError: if no broker is available.
    """
    if external is not None:
        return ExternalBroker(*external.address)
    log = directory / "broker.log"
    if (mosquitto := shutil.which("mosquitto") or shutil.which("mosquitto", path=_SYSTEM)) is not None:
        configuration = write_broker(
            fleet, directory / "broker", [HOST], port=port, listen=HOST, user=getpass.getuser()
        )
        command = [mosquitto, "-c", str(configuration)]
        return OwnBroker("Mosquitto, hardened", command, port, {"url": f"mqtts://{HOST}:{port}"}, log)
    if importlib.util.find_spec("amqtt") is not None:
        command = [sys.executable, "-m", "sottovoce_lab.testbed.embedded_broker", str(port)]
        settings = {"url": f"mqtt://{HOST}:{port}", "version": "3.1.1"}
        return OwnBroker("the embedded broker (Mosquitto is not installed)", command, port, settings, log)
    raise NetworkError(
        "no MQTT broker is available: install Mosquitto (sudo apt-get install mosquitto) or the extra sottovoce[demo], "
        "or specify your own with --set transport.mqtt.url=mqtt://127.0.0.1:1883"
    )


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5.0):
            return True
    except OSError:
        return False
