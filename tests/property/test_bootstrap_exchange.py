"""Exchanges on the wire: a signed exchange arrives unchanged, and nothing else has any effect."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.net.wire.membership import MAX_EXCHANGE_BYTES, decode_exchange, encode_exchange
from sottovoce_bootstrap import Author, Entry, Exchange, Membership, PeerRecord, Settings, Verifier
from sottovoce_bootstrap.record import MAX_CERTIFICATE_BYTES, MAX_NUMBER
from sottovoce_operator.fleet import create_fleet, enrol

RUNS = 1500
REASONS = {"size", "malformed", "record", "entries"}

hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,40}:[1-9][0-9]{0,3}", fullmatch=True)
numbers = st.integers(1, MAX_NUMBER)
ages = st.integers(0, 2**32 - 1).map(lambda milliseconds: milliseconds / 1000)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory: Path = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return [enrol(fleet, directory / str(number)) for number in range(4)]


def _member(identity: Identity, verifier: Verifier) -> Membership:
    return Membership(
        node_id=identity.node_id,
        settings=Settings(),
        incarnation=1,
        issue=Author(identity, ["me:1"], ["grpc"]).issue,
        verify=verifier.verify,
        seeds=(),
        book=(),
        rng=random.Random(1),
        now=0.0,
    )


def _exchange(identities: list[Identity]) -> Exchange:
    records = [Author(identity, ["10.0.0.7:7400"], ["grpc"]).issue(2, 3) for identity in identities]
    return Exchange(tuple(Entry(record, float(age)) for age, record in enumerate(records)))


@settings(max_examples=60, deadline=None)
@given(
    endpoints=st.lists(hosts, min_size=1, max_size=4, unique=True),
    incarnation=numbers,
    sequence=numbers,
    leaving=st.booleans(),
    age=ages,
)
def test_records_survive_the_round_trip_unchanged(
    identities: list[Identity], endpoints: list[str], incarnation: int, sequence: int, leaving: bool, age: float
) -> None:
    record = Author(identities[0], endpoints, ["grpc", "mqtt"]).issue(incarnation, sequence, leaving=leaving)
    exchange = Exchange((Entry(record, age),))
    assert decode_exchange(encode_exchange(exchange)) == exchange
    Verifier(Trust(identities[1])).verify(record)


@settings(max_examples=100, deadline=None)
@given(field=st.sampled_from(["fleet", "node_id", "certificate", "signature"]), data=st.data())
def test_changing_any_character_of_a_record_is_detected(
    identities: list[Identity], field: str, data: st.DataObject
) -> None:
    record = Author(identities[0], ["10.0.0.7:7400"], ["grpc"]).issue(2, 3)
    value = getattr(record, field)
    place = data.draw(st.integers(0, len(value) - 1))
    if isinstance(value, bytes):
        altered: object = value[:place] + bytes([value[place] ^ 1 << data.draw(st.integers(0, 7))]) + value[place + 1 :]
    else:
        other = data.draw(st.sampled_from("abcdefgh234567").filter(lambda character: character != value[place]))
        altered = value[:place] + other + value[place + 1 :]
    with pytest.raises(MessageRefused):
        Verifier(Trust(identities[1])).verify(replace(record, **{field: altered}))  # type: ignore[arg-type]


def _mangled(rng: random.Random, raw: bytes) -> bytes:
    mangled = bytearray(raw)
    for _ in range(rng.randint(1, 3)):
        place, length = rng.randint(0, len(mangled)), rng.choice((1, 1, 2, 8, 40))
        match rng.randrange(4):
            case 0:
                mangled[place : place + length] = rng.randbytes(length)
            case 1:
                del mangled[place : place + length]
            case 2:
                mangled[place:place] = rng.randbytes(length)
            case _:
                start = rng.randint(0, len(mangled))
                mangled[place:place] = mangled[start : start + length]
    return bytes(mangled)


def test_mangled_exchanges_are_refused_or_contain_only_signed_records(identities: list[Identity]) -> None:
    me, *others = identities
    whole = encode_exchange(_exchange(others))
    genuine = {entry.record for entry in _exchange(others).entries}
    verifier = Verifier(Trust(me))
    let_in, reasons = 0, set()
    for run in range(RUNS):
        rng = random.Random(f"exchange/{run}")
        raw = _mangled(rng, whole)
        member = _member(me, verifier)
        try:
            exchange = decode_exchange(raw)
        except MessageRefused as refusal:
            reasons.add(refusal.reason)
            continue
        except Exception as error:
            error.add_note(f"run {run}: {raw.hex()}")
            raise
        try:
            member.on_request(others[0].node_id, exchange, 1.0)
        except MessageRefused:
            assert not member.view, f"run {run}"
            assert not member.traffic, f"run {run}"
        else:
            let_in += 1
            assert set(member.view) <= genuine, f"run {run}: {raw.hex()}"
    assert let_in < RUNS / 2
    assert reasons <= REASONS


@given(raw=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(MessageRefused) as refusal:
        decode_exchange(raw)
    assert refusal.value.reason in REASONS


def test_the_encoding_is_canonical_and_contains_nothing_unsigned(identities: list[Identity]) -> None:
    raw = encode_exchange(_exchange(identities))
    for altered in (raw + b"\x50\x01", raw + b"\x0a\x00", raw[:-1], raw + raw, b"\x00" * (MAX_EXCHANGE_BYTES + 1)):
        with pytest.raises(MessageRefused) as refusal:
            decode_exchange(altered)
        assert refusal.value.reason in REASONS


def test_the_largest_exchange_fits_its_limit_and_an_envelope() -> None:
    def record(number: int) -> PeerRecord:
        endpoints = tuple(f"{place}{'x' * 251}:65535" for place in range(4))
        transports = tuple(f"{place}{'x' * 15}" for place in "abcd")
        node = "a" * 31 + "abcdefghijklmnop"[number]
        certificate = bytes(MAX_CERTIFICATE_BYTES)
        return PeerRecord("f" * 40, node, MAX_NUMBER, MAX_NUMBER, endpoints, transports, True, certificate, bytes(64))

    exchange = Exchange(tuple(Entry(record(number), 2.0**40) for number in range(16)))
    raw = encode_exchange(exchange)
    assert len(raw) <= MAX_EXCHANGE_BYTES < MAX_ENVELOPE_BYTES
    assert {entry.age for entry in decode_exchange(raw).entries} == {(2**32 - 1) / 1000}
