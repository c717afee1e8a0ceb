"""Vaults behind a socket: one in a thread of this process, or `sottovoce vault run`."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sottovoce.privacy.rpc.server import ServedVault, VaultServer, listening_socket
from sottovoce.privacy.vault import Budget, Vault
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.join import join

from tests.support.devices import Device, draw_records, free_port
from tests.support.waiting import TIMEOUT, until


@contextmanager
def serve_vault(served: ServedVault, path: Path) -> Iterator[None]:
    """Serve a vault at `path`, in a thread."""
    stop_receiver, stop_sender = socket.socketpair()
    with stop_receiver, stop_sender, listening_socket(path, shared=False) as listener:
        thread = threading.Thread(target=VaultServer(served).run, args=(listener, stop_receiver))
        thread.start()
        try:
            yield
        finally:
            stop_sender.send(b"!")
            thread.join(TIMEOUT)
            assert not thread.is_alive()


def make_served(vault: Vault, owner: str, budget: Budget, **overrides: Any) -> ServedVault:
    """Set up a vault of a small model to be served, by default to the current user."""
    return ServedVault(
        **{"vault": vault, "owner": owner, "budget": budget, "user": os.getuid(), "max_point_size": 64, **overrides}
    )


def separate_device(
    fleet: Fleet,
    state: Path,
    *,
    seed: int = 0,
    records: int = 60,
    epsilon: float = 2.0,
    neighbouring: str = "add-remove",
    unit: str = "record",
) -> Device:
    """Make a device with records whose ledger is in the directory of a separate vault; not yet configured."""
    budget = Budget(epsilon, 1e-5, unit, neighbouring)
    identity = join(fleet, state, budget, vault=vault_directory(state))
    return Device(state, identity, free_port()).hold(*draw_records(records, seed))


def vault_directory(state: Path) -> Path:
    """Return the vault directory for a device's state directory."""
    return state.with_name(state.name + "-vault")


def vault_section(state: Path, **overrides: Any) -> dict[str, Any]:
    """Return the [vault] section for the device's configuration."""
    directory = vault_directory(state)
    return {"socket": str(directory.with_suffix(".sock")), "directory": str(directory), "patience": 30.0, **overrides}


class VaultProcess:
    """A `sottovoce vault run` process that logs to a file next to the vault directory.

    Args:
        device: device that the vault belongs to.
        python: Python interpreter.
        popen_options: further keyword arguments for subprocess.Popen, such as `user`.
    """

    def __init__(self, device: Device, python: str = sys.executable, **popen_options: Any) -> None:
        self.device = device
        self._log = vault_directory(device.state).with_suffix(".log")
        self._log_offset = len(self.log()) if self._log.exists() else 0
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [python, "-m", "sottovoce", "vault", "run", "--config", str(device.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **popen_options,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def ready(self) -> Self:
        """Wait until the vault listens."""

        def listens() -> bool:
            assert self.process.poll() is None, self.log()
            return "ready owner=" in self.log()[self._log_offset :]

        until(listens, "the vault listens")
        return self

    def end(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; return the exit code."""
        self.process.send_signal(signum)
        return self.process.wait(TIMEOUT)

    def log(self) -> str:
        """Return the log of all vault processes of this device."""
        return self._log.read_text()
