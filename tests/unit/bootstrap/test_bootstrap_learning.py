"""Sources' reports: tried, never trusted, and bounded whatever their content."""

import random
from collections.abc import Sequence

import pytest
from sottovoce.fleet import Identity, node_id
from sottovoce_bootstrap import Contact, Effect, Membership, Request
from sottovoce_bootstrap.contacts import CANDIDATES, Contacts

from tests.unit.bootstrap.overlay import PERIOD, Overlay, make_address, make_seed
from tests.unit.bootstrap.test_bootstrap_membership import _exchange, _member

pytestmark = pytest.mark.slow

Identities = Sequence[Identity]


def _targets(effects: list[Effect]) -> list[str]:
    return [effect.contact.node_id for effect in effects if isinstance(effect, Request)]


def _invented(count: int, endpoint: str = "10.9.9.9:7400") -> list[Contact]:
    return [Contact(node_id(number.to_bytes(32, "big")), (endpoint,)) for number in range(count)]


def _requested(member: Membership, effects: list[Effect], other: Identity, sequence: int = 1) -> None:
    assert other.node_id in _targets(effects)
    member.on_reply(other.node_id, _exchange(other, sequence), 0.0)


def test_a_device_without_contacts_tries_a_source_s_contacts_at_once(identities: Identities) -> None:
    me, *others = identities[:6]
    member = _member(me)
    assert _targets(member.tick(0.0)) == []
    assert member.due > 1.0
    member.learn("mdns", map(make_seed, [me, *others]), 0.5)
    assert member.due <= 1.5
    tried = _targets(member.tick(member.due))
    assert set(tried) <= {other.node_id for other in others}
    assert len(set(tried)) == len(tried) == 4


def test_a_contact_alone_is_not_a_recipient(identities: Identities) -> None:
    me, other = identities[:2]
    member = _member(me)
    member.learn("mdns", [make_seed(other)], 0.0)
    assert [*member.view, *member.peers(0.0), *member.warm()] == []
    reply, _ = member.on_request(identities[3].node_id, _exchange(identities[3]), 0.0)
    assert [entry.record.node_id for entry in reply.entries] == [me.node_id], "it is not passed on"
    _requested(member, member.tick(0.1), other)
    assert other.node_id in {record.node_id for record in member.view}


def test_with_contacts_one_candidate_per_period_is_tried_besides_the_usual_exchange(identities: Identities) -> None:
    me, friend, *others = identities[:8]
    member = _member(me)
    member.on_request(friend.node_id, _exchange(friend), 0.0)
    member.learn("mdns", map(make_seed, others), 0.0)
    for tick in range(1, 4):
        targets = _targets(member.tick(tick * PERIOD))
        assert targets.count(friend.node_id) == 1
        assert len(targets) == 2
        member.on_reply(friend.node_id, _exchange(friend, tick + 1), tick * PERIOD)
        (candidate,) = set(targets) - {friend.node_id}
        assert member.on_failure(candidate, tick * PERIOD) == [], "an invented contact replaces no peer"


def test_a_flood_does_not_affect_configured_seeds_and_other_sources(identities: Identities) -> None:
    seed, brokered, local = identities[1:4]
    contacts = Contacts([make_seed(seed)], [], identities[0].node_id, random.Random(1))
    contacts.learn("mqtt", [make_seed(brokered)], ())
    contacts.learn("mdns", [*_invented(5000), make_seed(local)], ())
    assert len(contacts.candidates) == CANDIDATES + 1
    assert brokered.node_id in contacts.candidates
    assert seed.node_id in set(contacts)
    hits = 0
    for _ in range(400):
        contacts.learn("mdns", [*_invented(127), make_seed(local)], ())
        hits += local.node_id in contacts.candidates
    assert 60 < hits < 140, "one real contact among 128 is stored a quarter of the time, at any position"
    contacts.learn("mdns", [], ())
    assert contacts.candidates == [brokered.node_id], "a source's new contacts replace its old ones"


def test_known_devices_are_not_reported_again(identities: Identities) -> None:
    me, other, third = identities[:3]
    contacts = Contacts([], [], me.node_id, random.Random(1))
    contacts.learn("dns", map(make_seed, (me, other, third)), {other.node_id})
    assert contacts.candidates == [third.node_id]
    contacts.note_record(third.node_id)
    assert contacts.candidates == []
    assert not contacts.is_wanted(third.node_id)


def test_a_source_s_endpoints_come_after_a_device_s_own(identities: Identities) -> None:
    me, other = identities[:2]
    own = make_address(other)
    member = _member(me, book=[make_seed(other)])
    contacts = [Contact(other.node_id, (f"10.0.0.{number}:7400",)) for number in range(1, 9)]
    member.learn("mdns", contacts, 0.0)
    member.learn("dns", [Contact(other.node_id, ("10.1.0.1:7400",))], 0.0)
    result = member.find(other.node_id)
    assert result is not None
    assert result.endpoints == (own, *(f"10.0.0.{number}:7400" for number in range(1, 5)))


def test_a_device_announced_by_a_liar_is_accepted_when_its_own_record_arrives(identities: Identities) -> None:
    """Three failed attempts at a stranger's address must not exclude the device for long."""
    me, victim, friend = identities[:3]
    member = _member(me)
    now = 0.0
    for _ in range(3):
        member.learn("mdns", [Contact(victim.node_id, ("10.9.9.9:1",))], now)
        now += 2 * PERIOD
        member.on_failure(_targets(member.tick(now))[0], now)
    member.learn("mdns", [], now)
    member.on_request(friend.node_id, _exchange(friend, 1, victim), now)
    assert {record.node_id for record in member.view} == {victim.node_id, friend.node_id}
    assert victim.node_id in {contact.node_id for contact in member.peers(now)}


def test_islands_visible_to_one_source_become_one_fleet(identities: Identities) -> None:
    overlay = Overlay(seed=12)
    for island in (identities[:15], identities[15:30]):
        for identity in island:
            overlay.add(identity, [make_seed(island[0])])
    overlay.until(lambda: overlay.components() == 2)
    node = overlay.nodes[make_address(identities[3])]
    assert node.membership is not None
    node.membership.learn("mdns", [make_seed(identities[20])], overlay.now)
    overlay.until(lambda: all(len(view) == 29 for view in overlay.views().values()), 20)


@pytest.mark.parametrize("flood", [40, 5000])
def test_a_device_among_invented_contacts_still_finds_its_fleet(identities: Identities, flood: int) -> None:
    """Every search returns invented devices, and the real device among them."""
    overlay = Overlay(seed=13)
    for identity in identities[1:9]:
        overlay.add(identity, [make_seed(identities[1])])
    overlay.run(8)
    alone = overlay.add(identities[0])
    rng = random.Random(2)

    def look() -> bool:
        assert alone.membership is not None
        strangers = rng.sample(_invented(flood), 39)  # a search returns a bounded sample
        alone.membership.learn("mdns", [*strangers, make_seed(identities[4])], overlay.now)
        return len(alone.membership.view) == 8

    overlay.until(look, 60)
