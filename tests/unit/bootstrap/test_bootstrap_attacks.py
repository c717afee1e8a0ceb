"""Malicious device in the fleet: its influence on another device's view is small and short-lived."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce_bootstrap import Author, Contact, DuplicateIdentity, Entry, Exchange, Membership, PeerRecord, Settings
from sottovoce_bootstrap.quotas import MAX_REQUESTS, MAX_REQUESTS_PER_SENDER
from sottovoce_bootstrap.sightings import CAPACITY, Sightings
from sottovoce_bootstrap.verification import Verifier

Identities = Sequence[Identity]
SETTINGS = Settings(period=10.0)
HORIZON = SETTINGS.horizon
CAP = SETTINGS.introductions
_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"


def _record(identity: Identity, sequence: int = 1, incarnation: int = 1, *, leaving: bool = False) -> PeerRecord:
    return _at(identity, f"{identity.node_id[:12]}.internal:7400", sequence, incarnation, leaving=leaving)


def _at(
    identity: Identity, endpoint: str, sequence: int = 1, incarnation: int = 1, *, leaving: bool = False
) -> PeerRecord:
    return Author(identity, [endpoint], ["grpc"]).issue(incarnation, sequence, leaving=leaving)


def _unverified(number: int) -> PeerRecord:
    """Make a record that only a permissive verifier accepts, because making many is fast."""
    node = "".join(_DIGITS[number // 32**index % 32] for index in range(3)) + "a" * 29
    return PeerRecord("meters", node, 1, 1, ("a:1",), ("grpc",), False, b"c", bytes(64))


def _member(
    identity: Identity,
    verify: Callable[[PeerRecord], None] | None = None,
    seeds: Sequence[Contact] = (),
    book: Sequence[Contact] = (),
) -> Membership:
    return Membership(
        node_id=identity.node_id,
        settings=SETTINGS,
        incarnation=1,
        issue=Author(identity, ["me.internal:7400"], ["grpc"]).issue,
        verify=verify or Verifier(Trust(identity)).verify,
        seeds=seeds,
        book=book,
        rng=random.Random(1),
        now=0.0,
    )


def _tell(member: Membership, now: float, sender: PeerRecord, *others: PeerRecord, age: float = 0.0) -> Exchange:
    entries = (Entry(sender, 0.0), *(Entry(other, age) for other in others))
    return member.on_request(sender.node_id, Exchange(entries), now)[0]


def _ids(member: Membership) -> set[str]:
    return {record.node_id for record in member.view}


def test_a_replayed_record_never_replaces_a_newer_one(identities: Identities) -> None:
    me, relay, device = identities[:3]
    member = _member(me)
    _tell(member, 1.0, _record(relay), _record(device, sequence=1, incarnation=2))
    for old in (_record(device, sequence=9), _record(device, sequence=10**9)):
        _tell(member, 2.0, _record(relay, 2), old)
    assert {record.node_id: record.version for record in member.view}[device.node_id] == (2, 1)
    _tell(member, 3.0, _record(relay, 3), _record(device, sequence=2, incarnation=2))
    assert {record.node_id: record.version for record in member.view}[device.node_id] == (2, 2)


def test_forged_entries_are_counted_and_the_rest_of_the_exchange_is_accepted(
    identities: Identities, stranger: Identity, expired: Identity
) -> None:
    me, relay, device, victim = identities[:4]
    member = _member(me)
    forged = replace(_record(victim), endpoints=("evil.internal:7400",))
    _tell(member, 1.0, _record(relay), _record(stranger), _record(expired), forged, _record(device))
    assert _ids(member) == {relay.node_id, device.node_id}
    assert member.refused == {"certificate": 2, "signature": 1}


def test_a_sender_whose_own_record_is_forged_changes_nothing(identities: Identities, stranger: Identity) -> None:
    me, relay, device = identities[:3]
    member = _member(me)
    for sender, record in ((relay, _record(device)), (stranger, _record(stranger))):
        with pytest.raises(MessageRefused):
            member.on_request(sender.node_id, Exchange((Entry(record, 0.0), Entry(_record(identities[4]), 0.0))), 1.0)
    assert not member.view
    assert not member.traffic


def test_an_introducer_of_a_thousand_devices_adds_a_bounded_number_per_period(identities: Identities) -> None:
    member = _member(identities[0], verify=lambda record: None)
    flood = [_unverified(number) for number in range(1000)]
    for period in range(3):
        for call in range(MAX_REQUESTS_PER_SENDER):
            begin = 15 * (MAX_REQUESTS_PER_SENDER * period + call)
            _tell(
                member, period * 10.0 + call, _record(identities[1], call + 1, period + 1), *flood[begin : begin + 15]
            )
        with pytest.raises(MessageRefused, match="next"):
            _tell(member, period * 10.0 + 5, _record(identities[1], 9, period + 1), *flood[:15])
        assert len(_ids(member)) == min(30, 1 + CAP * (period + 1))


def test_the_total_number_of_answers_per_period_is_bounded(identities: Identities) -> None:
    member = _member(identities[0], verify=lambda record: None)
    for number in range(MAX_REQUESTS):
        _tell(member, 1.0, _unverified(number))
    with pytest.raises(MessageRefused) as exc_info:
        _tell(member, 1.0, _unverified(1000))
    assert exc_info.value.reason == "rate"
    _tell(member, 11.0, _unverified(1000))


def test_a_relay_that_always_reports_age_zero_keeps_a_dead_device_for_one_horizon(identities: Identities) -> None:
    me, relay, dead = identities[:3]
    member, last = _member(me), _record(dead)
    stored = []
    for step in range(60):
        now = 5.0 * step
        _tell(member, now, _record(relay, step + 1), last)
        if dead.node_id in _ids(member):
            stored.append(now)
    assert stored == [5.0 * step for step in range(int(HORIZON / 5) + 1)]
    reply = _tell(member, 300.0, _record(relay, 99), last)
    assert dead.node_id not in {entry.record.node_id for entry in reply.entries}
    _tell(member, 301.0, _record(relay, 100), _record(dead, 2))
    assert dead.node_id in _ids(member)


def test_a_relay_cannot_make_a_living_device_older_than_its_last_record(identities: Identities) -> None:
    me, relay, device, asker = identities[:4]
    member = _member(me)
    _tell(member, 50.0, _record(relay), _record(device, 1), age=20.0)
    _tell(member, 60.0, _record(relay, 2), _record(device, 2), age=HORIZON)
    reply = _tell(member, 61.0, _record(asker))
    assert {entry.record.node_id: entry.age for entry in reply.entries}[device.node_id] == 31.0
    _tell(member, 62.0, _record(asker, 2), _record(device, 2), age=3.0)  # an honest copy is even younger
    reply = _tell(member, 63.0, _record(identities[4]))
    assert {entry.record.node_id: entry.age for entry in reply.entries}[device.node_id] == 4.0


def test_an_entry_that_is_too_old_is_neither_accepted_nor_passed_on(identities: Identities) -> None:
    me, relay, device, asker = identities[:4]
    member = _member(me)
    _tell(member, 0.0, _record(relay), _record(device), age=HORIZON + 1)
    assert _ids(member) == {relay.node_id}
    assert len(_tell(member, HORIZON + 1, _record(asker)).entries) == 1
    assert _ids(member) == {asker.node_id}


def test_a_device_that_receives_nothing_keeps_its_view(identities: Identities) -> None:
    member = _member(identities[0])
    _tell(member, 0.0, _record(identities[1]), _record(identities[2]))
    member.tick(10 * HORIZON)
    assert len(member.peers(10 * HORIZON)) == 2


def test_old_copies_of_a_departed_device_do_not_return(identities: Identities) -> None:
    me, relay, device, asker = identities[:4]
    member = _member(me)
    _tell(member, 0.0, _record(relay), _record(device, 5))
    _tell(member, 1.0, _record(device, 6, leaving=True))
    assert _ids(member) == {relay.node_id}
    _tell(member, 2.0, _record(relay, 2), _record(device, 5))
    assert _ids(member) == {relay.node_id}
    reply = _tell(member, 3.0, _record(asker))
    assert {entry.record.node_id: entry.record.leaving for entry in reply.entries[1:]} == {
        device.node_id: True,
        relay.node_id: False,
    }
    _tell(member, 4.0, _record(device, 1, incarnation=2))
    assert device.node_id in _ids(member)
    reply = _tell(member, 5.0, _record(asker, 2))
    assert [entry.record.leaving for entry in reply.entries] == [False] * 3


def test_at_most_two_devices_from_one_public_network_enter_a_view(identities: Identities) -> None:
    for addresses, most in (("8.8.4.{}:7400", 2), ("[2001:4860:4860::{}]:7400", 2), ("10.0.0.{}:7400", 8)):
        member = _member(identities[0])
        for number, identity in enumerate(identities[1:9]):
            _tell(member, float(number), _at(identity, addresses.format(number + 1)))
        assert len(_ids(member)) == most
        newest = {identity.node_id for identity in identities[9 - most : 9]}
        assert _ids(member) == newest


def test_the_memory_behind_the_view_is_bounded_and_includes_the_view() -> None:
    sightings = Sightings()
    records = [_unverified(number) for number in range(CAPACITY + 50)]
    keep = {record.node_id for record in records[:30]}
    for record in records:
        sightings.note(record, 0.0, 1.0, keep)
    assert len(sightings) == CAPACITY
    assert all(sightings.get(node) for node in keep)
    assert sightings.get(records[30].node_id) is None


def test_a_newer_record_of_this_device_raises_an_alarm_once_per_horizon(identities: Identities) -> None:
    me, relay = identities[:2]
    member = _member(me)
    member.tick(0.0)

    def meet(record: PeerRecord, sequence: int, now: float) -> list[DuplicateIdentity]:
        exchange = Exchange((Entry(_record(relay, sequence), 0.0), Entry(record, 0.0)))
        effects = member.on_request(relay.node_id, exchange, now)[1]
        return [effect for effect in effects if isinstance(effect, DuplicateIdentity)]

    assert meet(member.record, 1, 1.0) == []
    assert meet(_record(me, 1), 2, 2.0) == []
    assert meet(replace(_record(me, 9, 7), endpoints=("evil:1",)), 3, 3.0) == []
    assert member.refused == {"signature": 1}
    assert [alarm.incarnation for alarm in meet(_record(me, 1, 7), 4, 4.0)] == [8]
    assert meet(_record(me, 1, 9), 5, 15.0) == []
    member.adopt(8, 15.0)
    assert member.record.version == (8, 1)
    assert [alarm.incarnation for alarm in meet(_record(me, 1, 9), 6, 5.0 + HORIZON)] == [10]
    same = _at(me, "other.internal:7400", 1, 8)
    assert [alarm.incarnation for alarm in meet(same, 7, 6.0 + 2 * HORIZON)] == [9]


def test_a_device_with_an_outdated_record_is_shown_the_newer_one(identities: Identities) -> None:
    me, relay, device = identities[:3]
    member = _member(me)
    _tell(member, 0.0, _record(relay), _record(device, 5, incarnation=4))
    reply = _tell(member, 1.0, _record(device, 1))
    assert reply.entries[1].record.version == (4, 5)
    reply = _tell(member, 2.0, _record(device, 6, incarnation=4))
    assert device.node_id not in {entry.record.node_id for entry in reply.entries}
