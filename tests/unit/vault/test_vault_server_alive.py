"""Liveness of a separate vault: reported even while it receives no queries."""

import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sottovoce.privacy.rpc.server import VaultServer, listening_socket
from sottovoce.privacy.vault import Budget, Vault

from tests.support.vaults import make_served
from tests.support.waiting import TIMEOUT, until


@pytest.mark.parametrize("every", [0.005, None])
def test_an_idle_vault_is_alive(
    make_vault: Callable[..., Vault], budget: Budget, tmp_path: Path, every: float | None
) -> None:
    server, pulse = VaultServer(make_served(make_vault(), "meter-17", budget)), queue.SimpleQueue[None]()
    here, there = socket.socketpair()
    with here, there, listening_socket(tmp_path / "vault.sock", shared=False) as listener:

        def run() -> None:
            server.run(listener, here, alive=lambda: pulse.put(None), every=every)

        thread = threading.Thread(target=run)
        thread.start()
        if every is not None:
            until(lambda: pulse.qsize() >= 3, "it has reported three times")
        there.send(b"!")
        thread.join(TIMEOUT)
        assert not thread.is_alive()
        assert every is not None or pulse.empty()
