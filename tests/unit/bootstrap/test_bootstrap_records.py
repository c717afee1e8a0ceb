import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sottovoce.errors import ConfigError, MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce_bootstrap import Author, Entry, Exchange, PeerRecord, Verifier
from sottovoce_bootstrap.contact import prefix
from sottovoce_bootstrap.record import MAX_NUMBER


@pytest.fixture
def record(identities: tuple[Identity, ...]) -> PeerRecord:
    return _issue(identities[0])


def _issue(identity: Identity) -> PeerRecord:
    return Author(identity, ["10.0.0.7:7400"], ["grpc"]).issue(3, 5)


def _refusal(verifier: Verifier, record: PeerRecord) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        verifier.verify(record)
    assert "\n" not in str(exc_info.value)
    return exc_info.value.reason


def test_every_device_in_the_fleet_verifies_a_record(identities: tuple[Identity, ...], record: PeerRecord) -> None:
    for identity in identities[:3]:
        Verifier(Trust(identity)).verify(record)
    assert record.version == (3, 5)
    assert record.contact.endpoints == ("10.0.0.7:7400",)


def test_forged_records_are_refused(
    identities: tuple[Identity, ...], stranger: Identity, expired: Identity, record: PeerRecord
) -> None:
    verifier = Verifier(Trust(identities[1]))
    other = _issue(identities[2])
    assert _refusal(verifier, _issue(stranger)) == "certificate"
    assert _refusal(verifier, _issue(expired)) == "certificate"
    assert _refusal(verifier, replace(record, fleet="meters-2")) == "fleet"
    assert _refusal(verifier, replace(record, certificate=b"\x30\x03\x02\x01\x00")) == "certificate"
    assert _refusal(verifier, replace(record, certificate=other.certificate)) == "sender"
    assert _refusal(verifier, replace(record, signature=other.signature)) == "signature"
    for changed in (
        replace(record, sequence=6),
        replace(record, incarnation=4),
        replace(record, endpoints=("10.0.0.8:7400",)),
        replace(record, endpoints=(*record.endpoints, "10.0.0.8:7400")),
        replace(record, transports=("mqtt",)),
        replace(record, leaving=True),
    ):
        assert _refusal(verifier, changed) == "signature"


def test_a_revoked_device_s_record_is_refused_although_it_was_verified_before(
    identities: tuple[Identity, ...], record: PeerRecord
) -> None:
    trust = Trust(identities[1])
    verifier = Verifier(trust)
    verifier.verify(record)
    trust.revoke([record.node_id])
    assert _refusal(verifier, record) == "revoked"
    verifier.verify(_issue(identities[2]))
    trust.revoke([])
    verifier.verify(record)


def test_records_contain_the_new_certificate_once_it_is_renewed(
    identities: tuple[Identity, ...], record: PeerRecord
) -> None:
    author = Author(identities[0], ["10.0.0.7:7400"], ["grpc"])
    assert author.issue(3, 5) == record
    author.renew(replace(identities[0], certificate_der=b"another"))
    repeated = author.issue(3, 6)
    assert (repeated.certificate, repeated.endpoints, repeated.version) == (b"another", record.endpoints, (3, 6))


def test_an_expired_certificate_is_refused_although_it_was_verified_before(
    identities: tuple[Identity, ...], record: PeerRecord
) -> None:
    now = [datetime.now(UTC)]
    verifier = Verifier(Trust(identities[1]), lambda: now[0])
    verifier.verify(record)
    now[0] += timedelta(days=91)
    assert _refusal(verifier, record) == "certificate"
    now[0] -= timedelta(days=92)
    assert _refusal(verifier, record) == "certificate"


def test_the_second_verification_is_cheap(identities: tuple[Identity, ...]) -> None:
    records = [_issue(identity) for identity in identities]
    verifier = Verifier(Trust(identities[0]))
    durations = []
    for _ in range(2):
        begin = time.perf_counter()
        for record in records:
            verifier.verify(record)
        durations.append(time.perf_counter() - begin)
    assert durations[1] < durations[0] / 3, durations


@pytest.mark.parametrize(
    "endpoint", ["10.0.0.7:1", "127.0.0.1:65535", "[fe80::1]:7400", "meter-7.local:7400", "a_b.example:7400", "7:7400"]
)
def test_valid_endpoints(record: PeerRecord, endpoint: str) -> None:
    assert replace(record, endpoints=(endpoint,)).endpoints == (endpoint,)


@pytest.mark.parametrize(
    "changes",
    [
        *({"endpoints": (endpoint,)} for endpoint in (
            "", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:07400", ":7400", "a b:7400",
            "fe80::1:7400", "[10.0.0.7]x:7400", "[nonsense]:7400", "[1.2.3]:7400", "0.0.0.0:7400", "[::]:7400",
            "224.0.0.1:7400", "10.0.0.7:7400\n", "x" * 253 + ":7400", "é:7400", "-a:7400",
        )),
        {"endpoints": ()},
        {"endpoints": ("a:1", "a:1")},
        {"endpoints": ("a:1", "a:2", "a:3", "a:4", "a:5")},
        {"transports": ()},
        {"transports": ("grpc", "grpc")},
        {"transports": ("GRPC",)},
        {"transports": ("x" * 17,)},
        {"node_id": "a" * 31},
        {"node_id": "A" * 32},
        {"fleet": ""},
        {"fleet": "x" * 41},
        {"incarnation": 0},
        {"incarnation": MAX_NUMBER + 1},
        {"sequence": 0},
        {"sequence": MAX_NUMBER + 1},
        {"certificate": b""},
        {"certificate": bytes(2049)},
        {"signature": bytes(63)},
    ],
)  # fmt: skip
def test_malformed_fields_are_refused(record: PeerRecord, changes: dict[str, object]) -> None:
    with pytest.raises(MessageRefused) as exc_info:
        replace(record, **changes)  # type: ignore[arg-type]
    assert exc_info.value.reason == "record"


@pytest.mark.parametrize("endpoints", [[], ["0.0.0.0:7400"], ["a:1", "b:1", "c:1", "d:1", "e:1"]])
def test_an_invalid_announcement_is_a_configuration_error(
    identities: tuple[Identity, ...], endpoints: list[str]
) -> None:
    with pytest.raises(ConfigError, match=r"announced.*1 to 4"):
        Author(identities[0], endpoints, ["grpc"])


def test_an_exchange_has_few_entries_each_from_a_different_device(identities: tuple[Identity, ...]) -> None:
    entries = [Entry(_issue(identity), 1.0) for identity in identities[:17]]
    assert Exchange(tuple(entries[:16])).sender == entries[0].record
    for wrong in ((), tuple(entries), (entries[0], entries[1], entries[0])):
        with pytest.raises(MessageRefused) as exc_info:
            Exchange(wrong)
        assert exc_info.value.reason == "entries"
    for age in (-1.0, float("nan"), float("inf")):
        with pytest.raises(MessageRefused, match="age"):
            Entry(entries[0].record, age)


@pytest.mark.parametrize(
    "endpoint, network",
    [
        ("8.8.4.4:1", "8.8.4.0/24"),
        ("[2001:4860:4860::8888]:1", "2001:4860:4860::/48"),
        ("[::ffff:8.8.4.4]:1", "8.8.4.0/24"),
        ("10.1.2.3:1", "None"),
        ("127.0.0.1:1", "None"),
        ("[fe80::1]:1", "None"),
        ("[fd00::1]:1", "None"),
        ("meter.example:1", "None"),
    ],
)
def test_only_public_internet_addresses_have_a_prefix(endpoint: str, network: str) -> None:
    assert str(prefix(endpoint)) == network
