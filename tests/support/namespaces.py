"""Private networks on one machine: one network namespace per device, and switches that connect or separate devices.

The machine's own network is unaffected, because the switches also have a namespace of their own. A host's name server
is configured in /etc/netns, and removed together with the host. Requires root, and `ip` from iproute2.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COUNT = itertools.count()
_RESOLVERS = Path("/etc/netns")  # ip gives each namespace its own files from this directory


class Unavailable(Exception):
    """Raised if network namespaces cannot be created on this machine or by this user; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Host:
    """Host on the network.

    Attributes:
        namespace: name of the host's namespace.
        address: IPv4 address of the host.
    """

    namespace: str
    address: str

    @property
    def within(self) -> tuple[str, ...]:
        """The prefix that runs a command on this host; it execs the command, so the process id stays the same."""
        return ("ip", "netns", "exec", self.namespace)


class Lan:
    """Hosts on switches. Switches are islands until they are joined."""

    def __init__(self) -> None:
        self._name = f"sv{os.getpid()}x{next(_COUNT)}"
        self._hub = f"{self._name}-hub"
        self._namespaces: list[str] = []

    def switch_on(self, switches: int) -> None:
        """Make this many switches. Call it once."""
        self._make(self._hub)
        for switch in range(switches):
            self._in_hub("link", "add", f"sw{switch}", "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
            self._in_hub("link", "set", f"sw{switch}", "up")

    def host(self, switch: int = 0, address: str | None = None) -> Host:
        """Add a host to a switch; all hosts are in one /16, so that hosts on islands can communicate once joined."""
        number = len(self._namespaces)
        host = Host(f"{self._name}-{number}", address or f"10.77.{number // 250}.{number % 250 + 1}")
        self._make(host.namespace)
        port = f"p{number}"
        self._in_hub("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        self._in_hub("link", "set", port, "master", f"sw{switch}", "up")
        self.plug(host)
        return host

    def plug(self, host: Host) -> None:
        """Give a host its network, and its address on it."""
        self._in(host.namespace, "addr", "add", f"{host.address}/16", "dev", "eth0")
        self._in(host.namespace, "link", "set", "eth0", "up")
        self._in(host.namespace, "route", "add", "default", "dev", "eth0")

    def unplug(self, host: Host) -> None:
        """Take a host off the network."""
        self._in(host.namespace, "addr", "flush", "dev", "eth0")
        self._in(host.namespace, "link", "set", "eth0", "down")

    def resolve_at(self, host: Host, nameserver: str) -> None:
        """Make programs started on a host from now on resolve names at this address."""
        directory = _RESOLVERS / host.namespace
        directory.mkdir(parents=True)
        (directory / "resolv.conf").write_text(f"nameserver {nameserver}\n")

    def join(self, one: int, other: int) -> None:
        """Connect two switches by a cable; an address from one switch may now be on the other."""
        self._in_hub("link", "add", f"c{one}", "type", "veth", "peer", "name", f"c{other}")
        for switch in (one, other):
            self._in_hub("link", "set", f"c{switch}", "master", f"sw{switch}", "up")
        for namespace in self._namespaces:
            self._in(namespace, "neighbour", "flush", "all")

    def close(self) -> None:
        """Remove all namespaces, and with them their cables and switches."""
        for namespace in self._namespaces:
            _forget(namespace)

    def _make(self, namespace: str) -> None:
        _ip("netns", "add", namespace)
        self._namespaces.append(namespace)
        self._in(namespace, "link", "set", "lo", "up")

    def _in_hub(self, *command: str) -> None:
        self._in(self._hub, *command)

    @staticmethod
    def _in(namespace: str, *command: str) -> None:
        _ip("-n", namespace, *command)


@contextlib.contextmanager
def lan(switches: int = 1) -> Iterator[Lan]:
    """Make a network, which is removed at the end whatever happens.

    Raises:
        Unavailable: if a network cannot be made here.
    """
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    if shutil.which("ip") is None:
        raise Unavailable("network namespaces need iproute2's ip, which is not installed")
    _remove_leftovers()
    network = Lan()
    try:
        try:
            network.switch_on(switches)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"this machine makes no network namespaces: {error.stderr.strip()}") from error
        yield network
    finally:
        network.close()


def _remove_leftovers() -> None:
    """Remove the leftovers of killed test runs."""
    for namespace in Path("/run/netns").glob("sv*x*-*"):
        owner = namespace.name[2:].partition("x")[0]
        if not Path("/proc", owner).exists():
            _forget(namespace.name)


def _forget(namespace: str) -> None:
    subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
    if (_RESOLVERS / namespace).exists():
        shutil.rmtree(_RESOLVERS / namespace)
        with contextlib.suppress(OSError):  # the resource is in use
            _RESOLVERS.rmdir()


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True, text=True)
