"""When a source is queried next, and how DNS answers are interpreted."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from sottovoce.errors import ConfigError, NetworkError
from sottovoce_bootstrap import Contact
from sottovoce_bootstrap.sources import MAX_CONTACTS, pause
from sottovoce_bootstrap.sources.dns import DnsSource

IDS = ["a" * 32, "b" * 32, "c" * 32]
QUESTION = "_sottovoce._tcp.example.org."
Answer = Callable[[dns.message.QueryMessage], dns.message.Message]


def _pauses(**facts: Any) -> list[float]:
    rng = random.Random(1)
    usual = {"known": 0, "enough": 30, "queries": 0, "period": 60.0}
    return [pause(**{**usual, **facts}, rng=rng) for _ in range(200)]


def test_a_lone_device_searches_often_with_full_jitter_and_growing_pauses() -> None:
    longest = [max(_pauses(queries=queries)) for queries in range(10)]
    assert longest[0] <= 1.0
    assert longest == sorted(longest)
    assert 50 < longest[-1] <= 60.0
    assert max(_pauses(queries=10**6)) <= 60.0
    pauses = _pauses(queries=4)
    assert min(pauses) < 3.0 < 14.0 < max(pauses), "devices that start together do not query at the same time"


def test_a_device_with_contacts_searches_rarely_and_more_rarely_with_a_full_view() -> None:
    some, full = _pauses(known=11), _pauses(known=30)
    assert 300 <= min(some) < max(some) <= 600
    assert 1800 <= min(full) < max(full) <= 3600
    assert max(_pauses(known=11, period=0.05)) >= 4.0, "however short the period is"
    assert max(_pauses(known=30, period=86_400.0)) <= 3600


def test_a_failing_source_is_not_queried_more_often_than_a_working_one() -> None:
    assert min(_pauses(known=11, queries=3)) >= 300


@asynccontextmanager
async def resolver(answer: Answer) -> AsyncIterator[dns.asyncresolver.Resolver]:
    """A separate DNS server, and a resolver that queries it."""

    class Server(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            query = dns.message.from_wire(data)
            assert isinstance(query, dns.message.QueryMessage)
            self.transport.sendto(answer(query).to_wire(), address)

    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
    dns_resolver = dns.asyncresolver.Resolver(configure=False)
    dns_resolver.nameservers, dns_resolver.port = ["127.0.0.1"], transport.get_extra_info("sockname")[1]
    try:
        yield dns_resolver
    finally:
        transport.close()


def _records(*targets: str) -> Answer:
    def answer(query: dns.message.QueryMessage) -> dns.message.Message:
        response = dns.message.make_response(query)
        assert str(query.question[0].name) == QUESTION
        response.answer.append(dns.rrset.from_text(QUESTION, 60, "IN", "SRV", *targets))
        return response

    return answer


def _rcode(code: dns.rcode.Rcode) -> Answer:
    def answer(query: dns.message.QueryMessage) -> dns.message.Message:
        response = dns.message.make_response(query)
        response.set_rcode(code)
        return response

    return answer


async def _look(answer: Answer) -> list[Contact]:
    async with resolver(answer) as found:
        return list(await DnsSource("example.org", random.Random(1), found).look())


async def test_srv_targets_identify_the_devices() -> None:
    one, other, _ = IDS
    answer = _records(f"0 0 7400 {one}.example.org.", f"9 1 7401 {other.upper()}.lan.example.org.", "0 0 1 www.org.")
    assert sorted(await _look(answer), key=lambda contact: contact.node_id) == [
        Contact(one, (f"{one}.example.org:7400",)),
        Contact(other, (f"{other.upper()}.lan.example.org:7401",)),
    ]


async def test_one_device_s_records_form_one_contact() -> None:
    targets = [f"0 0 {7400 + port} {IDS[0]}.example.org." for port in range(9)]
    (contact,) = await _look(_records(*targets))
    assert len(contact.endpoints) == 5


async def test_a_domain_with_thousands_of_records_yields_a_few_of_them() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    ids = [f"{letters[i % 32]}{letters[i // 32]}" + "a" * 30 for i in range(500)]
    assert len(await _look(_records(*(f"0 0 7400 {item}.x." for item in ids)))) == MAX_CONTACTS


@pytest.mark.parametrize(
    "answer, words",
    [
        (_rcode(dns.rcode.NXDOMAIN), "exist"),
        (_rcode(dns.rcode.NOERROR), r"contain.*answer"),
        (_rcode(dns.rcode.REFUSED), "REFUSED"),
        (_records("0 0 7400 gateway.example.org."), r"\b1\b.*SRV"),
        (_records("0 0 0 ."), r"\b1\b.*SRV"),
    ],
)
async def test_a_failed_search_reports_where_and_why(answer: Answer, words: str) -> None:
    with pytest.raises(NetworkError, match=words) as exc_info:
        await _look(answer)
    assert QUESTION in str(exc_info.value)


@pytest.mark.parametrize("domain", ["a..org", f"{'x' * 64}.org", "." * 3])
def test_an_invalid_domain_is_reported_at_startup(domain: str) -> None:
    with pytest.raises(ConfigError, match=r"membership\.dns"):
        DnsSource(domain, random.Random(1))


def test_a_source_without_its_package_is_refused_at_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dns.asyncresolver", None)
    monkeypatch.setitem(sys.modules, "zeroconf.asyncio", None)
    with pytest.raises(ConfigError, match=r"membership\.dns.*\[discovery\]"):
        DnsSource("example.org", random.Random(1))
    from sottovoce_bootstrap.sources.mdns import MdnsSource

    with pytest.raises(ConfigError, match=r"membership\.mdns.*\[discovery\]"):
        MdnsSource("a" * 32, "10.0.0.1:7400", "0" * 16, random.Random(1))
