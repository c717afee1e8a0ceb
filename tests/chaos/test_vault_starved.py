"""Vault process without descriptors or memory: it waits, serves its connections, rarely logs it, and recovers."""

import fcntl
import resource
import socket
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sottovoce.errors import NetworkError
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.rpc import protocol
from sottovoce.privacy.vault import Ledger
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess
from tests.support.starvation import limited, processor_share, without_memory
from tests.support.vaults import VaultProcess, separate_device, vault_directory, vault_section
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

STEPS = 20
SECONDS = 3.0
LINES = 20
QUESTION = protocol.frame(protocol.encode(protocol.Introduce()))


def make_separate_device(directory: Path) -> Device:
    """Make a device with a separate vault, and a model whose gradients take half a megabyte each."""
    fleet: Fleet = new_fleet(directory / "fleet")
    device = separate_device(fleet, directory / "a")
    learner = {"steps": STEPS, "period": 0.1, "longest_period": 0.1, "model": "mlp", "hidden": 4096}
    return device.configure(learner=learner, vault=vault_section(device.state))


@contextmanager
def connect(device: Device) -> Iterator[socket.socket]:
    """Open a connection to the vault."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(vault_section(device.state)["socket"])
        client.settimeout(TIMEOUT)
        yield client


def has_read_everything(client: socket.socket) -> bool:
    """Return whether the vault has read everything that was sent to it."""
    unread = fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4))
    return not int.from_bytes(unread, sys.byteorder)


def is_answered(client: socket.socket) -> bool:
    """Return whether the vault answers the request."""
    return isinstance(protocol.decode_reply(protocol.receive(client, 2**20, TIMEOUT)), protocol.Introduction)


def check_recovery(vault: VaultProcess, agent: AgentProcess) -> None:
    """Check that every step is done, none is charged twice, and neither process has ended."""

    def is_finished() -> bool:
        try:
            return agent.status().get("steps_done") == STEPS
        except NetworkError:  # the agent is restarting
            return False

    until(is_finished, "all steps are done")
    assert (agent.process.poll(), vault.process.poll()) == (None, None)
    assert len(vault.log().splitlines()) < LINES
    assert len(agent.log().splitlines()) < LINES
    assert [agent.end(), vault.end()] == [0, 0]
    ledger = Ledger.read(vault_directory(agent.device.state) / LEDGER)
    spent = ledger.spending()
    ledger.close()
    assert (spent.charges, spent.releases) == (STEPS, STEPS)


def test_a_vault_without_descriptors_serves_open_connections_without_spinning(tmp_path: Path) -> None:
    device = make_separate_device(tmp_path)
    with VaultProcess(device).ready() as vault, AgentProcess(device) as agent:
        until(lambda: agent.ready().status()["steps_done"] >= 3, "some steps are done")
        with connect(device) as first_client, ExitStack() as stack:
            first_client.sendall(QUESTION[:1])
            until(lambda: has_read_everything(first_client), "the vault reads from the connection")
            with limited(vault.process.pid, resource.RLIMIT_NOFILE, 3):
                first_client.sendall(QUESTION[1:])
                assert is_answered(first_client)
                second_client = stack.enter_context(connect(device))
                second_client.sendall(QUESTION)
                share = processor_share(vault.process.pid, SECONDS)
                assert share < 0.2, f"the vault uses {share:.2f} of a processor"
                until(lambda: "connections-refused" in vault.log(), "the log reports it")
            assert is_answered(second_client)
        check_recovery(vault, agent)


def test_a_vault_without_memory_recovers_without_spinning(tmp_path: Path) -> None:
    device = make_separate_device(tmp_path)
    with VaultProcess(device).ready() as vault:
        pid = vault.process.pid
        with ExitStack() as stack:
            with without_memory(pid):
                agent = stack.enter_context(AgentProcess(device))
                until(lambda: "fault-passes kind=memory" in vault.log(), "the log reports it")
                share = processor_share(pid, SECONDS)
                assert share < 0.5, f"the vault uses {share:.2f} of a processor"
            check_recovery(vault, agent)
