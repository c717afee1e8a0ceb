"""Agents with a configured domain, on hosts of their own with a name server of their own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.islands import agents_on, two_islands, views
from tests.support.namespaces import Host
from tests.support.processes import sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

# answers from a zone file, one record set per line, until killed
_SERVER = """
import socket, sys
import dns.flags, dns.message, dns.rcode, dns.rrset
sets = [dns.rrset.from_text(*line.split(maxsplit=4)) for line in open(sys.argv[2])]
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
while True:
    raw, sender = server.recvfrom(4096)
    query = dns.message.from_wire(raw)
    question = query.question[0]
    response = dns.message.make_response(query)
    response.flags |= dns.flags.RA
    named = [one for one in sets if one.name == question.name]
    response.answer += [one for one in named if one.rdtype == question.rdtype]
    if not named:
        response.set_rcode(dns.rcode.NXDOMAIN)
    server.sendto(response.to_wire(), sender)
"""


@contextmanager
def nameserver(host: Host, zone: Path) -> Iterator[None]:
    command = [*host.within, sys.executable, "-c", _SERVER, host.address, str(zone)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.kill()


def test_agents_find_one_another_through_a_domain_s_records(fleet: Fleet, tmp_path: Path) -> None:
    """Two agents know the domain, which lists one of them; its host name is resolved as usual."""
    zone = tmp_path / "zone"
    with two_islands() as network:
        server, *hosts = (network.host() for _ in range(3))
        devices = [new_device(fleet, tmp_path / name, records=3) for name in "ab"]
        for device, host in zip(devices, hosts, strict=True):
            network.resolve_at(host, server.address)
            device.configure(
                [],
                transport={"listen": f"{host.address}:7400", "peers": []},
                membership={"sampling": "newscast", "period": 0.5, "dns": "fleet.example"},
                learner={"period": 1.0, "steps": 1},
                ledger={"alone": False},
            )
        one, other = (device.id for device in devices)
        with agents_on(hosts, devices) as agents:
            until(lambda: agents[0].status()["membership"]["sources"]["dns"]["failures"], "no name server answers yet")
            zone.write_text(
                f"_sottovoce._tcp.fleet.example. 60 IN SRV 0 0 7400 {one}.fleet.example.\n"
                f"{one}.fleet.example. 60 IN A {hosts[0].address}\n"
            )
            with nameserver(server, zone):
                until(lambda: views(agents) == {one: {other}, other: {one}}, "they find each other")
                assert agents[1].status()["membership"]["sources"]["dns"]["found"] == 1
            assert "no SRV records can be read" in agents[0].logged_line("discovery-failed", "source=dns")


@pytest.mark.parametrize(
    "membership, words",
    [
        ({"mdns": True}, "other devices cannot reach 127.0.0.1"),
        ({"dns": "a..b"}, "is not a valid domain name"),
        ({"dns": "no domain"}, "membership.dns: does not have the required form"),
        ({"mdns": True, "sampling": "static"}, "membership.mdns: static sampling uses only the peers"),
        ({"dns": "example.org", "sampling": "static"}, "membership.dns: static sampling uses only the peers"),
    ],
)
def test_permanent_errors_stop_an_agent_at_startup(
    fleet: Fleet, tmp_path: Path, membership: dict[str, object], words: str
) -> None:
    device = new_device(fleet, tmp_path / "d", records=3)
    device.configure([], membership={"sampling": "newscast", **membership})
    completed = sottovoce("agent", "run", "--config", device.config)
    assert completed.returncode == 3
    assert words in completed.stderr
    assert len(completed.stderr.splitlines()) == 1
