"""Vault process without descriptors or memory: it waits, serves its connections, rarely logs it, and recovers."""

import fcntl
import resource
import socket
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sottovoce.agent.assemble import LEDGER
from sottovoce.errors import NetworkError
from sottovoce.identity import Fleet
from sottovoce.vault import Ledger, protocol

from tests.support.devices import Device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess
from tests.support.starvation import address_space, limited, processor_share
from tests.support.vaults import VaultProcess, separate_device, vault_directory, vault_section
from tests.support.waiting import PATIENCE, until

STEPS = 20
SECONDS = 3.0
LINES = 20
QUESTION = protocol.frame(protocol.encode(protocol.Introduce()))


def separate(directory: Path) -> Device:
    """A device with a separate vault, and a model whose gradients take half a megabyte each."""
    fleet: Fleet = new_fleet(directory / "fleet")
    device = separate_device(fleet, directory / "a")
    learner = {"steps": STEPS, "period": 0.1, "longest_period": 0.1, "model": "mlp", "hidden": 4096}
    return device.configure(learner=learner, vault=vault_section(device.state))


@contextmanager
def connected(device: Device) -> Iterator[socket.socket]:
    """Open a connection to the vault."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(vault_section(device.state)["socket"])
        client.settimeout(PATIENCE)
        yield client


def read(client: socket.socket) -> bool:
    """Whether the vault has read all that was sent to it."""
    unread = fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4))
    return not int.from_bytes(unread, sys.byteorder)


def introduced(client: socket.socket) -> bool:
    """Whether the vault answers what it was asked."""
    return isinstance(protocol.decode_reply(protocol.receive(client, 2**20, PATIENCE)), protocol.Introduction)


def recovers(vault: VaultProcess, agent: AgentProcess) -> None:
    """Check that every step is done, none is charged twice, and neither process has ended."""

    def done() -> bool:
        try:
            return agent.status().get("steps_done") == STEPS
        except NetworkError:  # between two lives
            return False

    until(done, "all steps are done")
    assert (agent.process.poll(), vault.process.poll()) == (None, None)
    assert len(vault.log().splitlines()) < LINES
    assert len(agent.log().splitlines()) < LINES
    assert [agent.end(), vault.end()] == [0, 0]
    ledger = Ledger.read(vault_directory(agent.device.state) / LEDGER)
    spent = ledger.spending()
    ledger.close()
    assert (spent.charges, spent.releases) == (STEPS, STEPS)


def test_a_vault_without_descriptors_serves_whom_it_has_and_does_not_spin(tmp_path: Path) -> None:
    device = separate(tmp_path)
    with VaultProcess(device).ready() as vault, AgentProcess(device) as agent:
        until(lambda: agent.ready().status()["steps_done"] >= 3, "some steps are done")
        with connected(device) as early, ExitStack() as later:
            early.sendall(QUESTION[:1])
            until(lambda: read(early), "it is let in, and listened to")
            with limited(vault.process.pid, resource.RLIMIT_NOFILE, 3):
                early.sendall(QUESTION[1:])
                assert introduced(early)
                late = later.enter_context(connected(device))
                late.sendall(QUESTION)
                share = processor_share(vault.process.pid, SECONDS)
                assert share < 0.2, f"it takes {share:.2f} of a processor"
                until(lambda: "connections-refused" in vault.log(), "it says so")
            assert introduced(late)
        recovers(vault, agent)


def test_a_vault_without_memory_for_an_answer_recovers_and_does_not_spin(tmp_path: Path) -> None:
    device = separate(tmp_path)
    with VaultProcess(device).ready() as vault:
        pid = vault.process.pid
        with limited(pid, resource.RLIMIT_AS, address_space(pid)), AgentProcess(device) as agent:
            until(lambda: "fault-passes kind=memory" in vault.log(), "it says so")
            share = processor_share(pid, SECONDS)
            assert share < 0.5, f"it takes {share:.2f} of a processor"
            resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            recovers(vault, agent)
