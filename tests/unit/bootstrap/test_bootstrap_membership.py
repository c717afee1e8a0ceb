"""Membership's state machine alone: which peers it contacts, when, and what it does if none answers."""

import random
from collections.abc import Callable, Sequence

import pytest
from sottovoce.errors import ConfigError, MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce_bootstrap import (
    Author,
    Contact,
    Effect,
    Entry,
    Exchange,
    Membership,
    PeerRecord,
    Remember,
    Request,
    Settings,
    Verifier,
)

from tests.unit.bootstrap.overlay import make_address, make_seed

Identities = Sequence[Identity]
PERIOD = 10.0


def _record(identity: Identity, sequence: int = 1) -> PeerRecord:
    return Author(identity, [make_address(identity)], ["grpc"]).issue(1, sequence)


def _member(
    identity: Identity,
    seeds: Sequence[Contact] = (),
    book: Sequence[Contact] = (),
    verify: Callable[[PeerRecord], None] | None = None,
) -> Membership:
    return Membership(
        node_id=identity.node_id,
        settings=Settings(period=PERIOD),
        incarnation=1,
        issue=Author(identity, [make_address(identity)], ["grpc"]).issue,
        verify=verify or Verifier(Trust(identity)).verify,
        seeds=seeds,
        book=book,
        rng=random.Random(1),
        now=0.0,
    )


def _knowing(identity: Identity, others: Identities, now: float = 0.0) -> Membership:
    member = _member(identity)
    for other in others:
        member.on_request(other.node_id, _exchange(other), now)
    return member


def _exchange(identity: Identity, sequence: int = 1, *others: Identity) -> Exchange:
    entries = (Entry(_record(identity, sequence), 0.0), *(Entry(_record(other), 1.0) for other in others))
    return Exchange(entries)


def _targets(effects: list[Effect]) -> list[str]:
    return [effect.contact.node_id for effect in effects if isinstance(effect, Request)]


def test_seeds_are_tried_first_several_at_once_until_one_of_their_records_arrives(identities: Identities) -> None:
    me, *seeds = identities[:6]
    member = _member(me, [make_seed(seed) for seed in (*seeds, me)])
    assert {contact.node_id for contact in member.peers(0.0)} == {seed.node_id for seed in seeds}
    first = _targets(member.tick(0.0))
    assert len(set(first)) == len(first) == 4  # three as seeds, one because the view is empty
    heard = next(seed for seed in seeds if seed.node_id == first[0])
    effects = member.on_reply(heard.node_id, _exchange(heard), 0.1)
    assert effects == [Remember(make_seed(heard))]
    assert [record.node_id for record in member.view] == [heard.node_id]
    second = _targets(member.tick(member.due))
    assert heard.node_id in second  # from the view
    assert set(first[1:]) & set(second) == set()  # they still have time


def test_a_seed_is_tried_at_its_configured_address_and_then_at_its_announced_one(identities: Identities) -> None:
    me, seed = identities[:2]
    member = _member(me, [Contact(seed.node_id, ("gateway.internal:7411",))])
    assert member.find(seed.node_id) == Contact(seed.node_id, ("gateway.internal:7411",))
    member.on_request(seed.node_id, _exchange(seed), 1.0)
    assert member.find(seed.node_id) == Contact(seed.node_id, ("gateway.internal:7411", make_address(seed)))
    assert member.find(identities[5].node_id) is None


def test_an_expelled_device_is_forgotten_everywhere_and_not_tried_again(identities: Identities) -> None:
    me, removed, other = identities[:3]
    trust = Trust(me)
    member = _member(me, [make_seed(removed)], verify=Verifier(trust).verify)
    for peer in (removed, other):
        member.on_request(peer.node_id, _exchange(peer), 0.0)
    assert {contact.node_id for contact in member.warm()} == {removed.node_id, other.node_id}
    trust.revoke([removed.node_id])
    member.expel(trust.revoked, 1.0)
    # an uninformed peer passes on the record that was in the view before, and a newer one
    for sequence, record in ((2, _record(removed)), (3, _record(removed, 9))):
        exchange = Exchange((Entry(_record(other, sequence), 0.0), Entry(record, 0.0)))
        reply, _ = member.on_request(other.node_id, exchange, 2.0)
        assert removed.node_id not in {entry.record.node_id for entry in reply.entries}
    assert member.refused == {"revoked": 2}
    for _ in range(40):
        assert removed.node_id not in _targets(member.tick(member.due))
    assert {record.node_id for record in member.view} <= {other.node_id}
    assert removed.node_id not in {contact.node_id for contact in (*member.warm(), *member.peers(member.due))}


def test_every_tenth_tick_goes_to_an_old_contact_although_the_view_has_peers(identities: Identities) -> None:
    me, old, *others = identities[:8]
    member = _member(me, book=[make_seed(old), make_seed(me)])
    for tick in range(1, 41):
        now = member.due
        for other in others:
            member.on_request(other.node_id, _exchange(other, tick), now)
        (target,) = _targets(member.tick(now))
        assert (target == old.node_id) == (tick % 10 == 0)
        if target == old.node_id:
            (target,) = _targets(member.on_failure(target, now + 1))
        reached = next(identity for identity in identities if identity.node_id == target)
        member.on_reply(target, _exchange(reached, tick), now + 2)


def test_without_an_answer_two_other_peers_are_tried_in_the_same_period(identities: Identities) -> None:
    me, *others = identities[:9]
    member = _knowing(me, others)
    tried = _targets(member.tick(0.0))
    for failures in range(1, 4):
        now = float(failures)
        redrawn = _targets(member.on_failure(tried[-1], now))
        assert len(redrawn) == (failures < 3)
        tried += redrawn
    assert len(set(tried)) == 3
    assert member.traffic == {"received": 8, "sent": 3, "failed": 3}


def test_a_peer_that_fails_three_times_leaves_the_view_until_its_pause_has_passed(
    identities: Identities,
) -> None:
    me, failing, relay = identities[:3]
    member = _knowing(me, [failing, relay])
    for attempt in range(3):
        assert failing.node_id in {record.node_id for record in member.view}
        member.on_failure(failing.node_id, float(attempt))
        assert failing.node_id not in {contact.node_id for contact in member.peers(float(attempt))}
    assert [record.node_id for record in member.view] == [relay.node_id]
    member.on_request(relay.node_id, _exchange(relay, 2, failing), 3.0)
    assert [record.node_id for record in member.view] == [relay.node_id]
    member.on_request(relay.node_id, _exchange(relay, 3, failing), 30.0)  # the third pause is at most 20 s
    assert len(member.view) == 2
    member.on_failure(failing.node_id, 31.0)
    assert [record.node_id for record in member.view] == [relay.node_id]
    member.on_request(failing.node_id, _exchange(failing, 2), 31.5)  # it calls: one more attempt
    assert failing.node_id in {contact.node_id for contact in member.peers(31.5)}
    member.on_failure(failing.node_id, 32.0)
    assert [record.node_id for record in member.view] == [relay.node_id]
    member.on_success(failing.node_id)
    member.on_request(failing.node_id, _exchange(failing, 3), 33.0)
    assert len(member.view) == 2


def test_a_request_without_a_result_ends_after_a_period(identities: Identities) -> None:
    me, other = identities[:2]
    member = _knowing(me, [other])
    assert _targets(member.tick(0.0)) == [other.node_id]
    assert _targets(member.tick(5.0)) == []
    member.tick(PERIOD)
    assert member.traffic["failed"] == 1
    with pytest.raises(MessageRefused) as exc_info:
        member.on_reply(other.node_id, _exchange(other, 2), PERIOD)
    assert exc_info.value.reason == "unsolicited"


def test_a_reply_from_another_device_is_refused_and_the_request_continues(identities: Identities) -> None:
    me, other, third = identities[:3]
    member = _knowing(me, [other])
    member.tick(0.0)
    with pytest.raises(MessageRefused) as exc_info:
        member.on_reply(other.node_id, _exchange(third), 1.0)
    assert exc_info.value.reason == "sender"
    assert [record.node_id for record in member.view] == [other.node_id]
    member.on_reply(other.node_id, _exchange(other, 2, third), 2.0)
    assert len(member.view) == 2


def test_six_channels_stay_warm_and_are_replaced_when_they_fail(identities: Identities) -> None:
    me, *others = identities[:10]
    member = _knowing(me, others)
    warm = member.warm()
    assert len(warm) == 6
    member.on_failure(warm[0].node_id, 1.0)
    repeated = member.warm()
    assert len(repeated) == 6
    assert warm[0] not in repeated
    assert set(warm[1:]) < set(repeated)
    for _ in range(10):
        member.tick(1.0)
    assert len(set(member.warm()) - set(repeated)) == 1


def test_samples_are_uniform_without_repetition(identities: Identities) -> None:
    me, *others = identities[:9]
    member = _knowing(me, others)
    counts = dict.fromkeys((other.node_id for other in others), 0)
    for _ in range(800):
        drawn = member.sample(3, 0.0)
        assert len({contact.node_id for contact in drawn}) == 3
        for contact in drawn:
            counts[contact.node_id] += 1
    assert all(240 < count < 360 for count in counts.values())
    assert len(member.sample(99, 0.0)) == 8


def test_a_device_without_contacts_tries_its_seed_as_soon_as_the_pause_has_passed(identities: Identities) -> None:
    me, seed = identities[:2]
    member = _member(me, [make_seed(seed)])
    pauses = []
    for _ in range(12):
        now = member.due
        if _targets(member.tick(now)):
            member.on_failure(seed.node_id, now)
            pauses.append(member.due - now)
    assert pauses[0] <= 5.0
    assert max(pauses) <= 1.1 * PERIOD


def test_after_leaving_nothing_begins(identities: Identities) -> None:
    me, *others = identities[:5]
    member = _knowing(me, others)
    assert len(member.leave(1.0)) == 4
    assert member.record.leaving
    assert member.due == float("inf")
    assert member.tick(2.0) == []
    assert all(member.on_failure(other.node_id, 2.0) == [] for other in others * 3)
    assert member.due == float("inf")
    assert not member.view


@pytest.mark.parametrize(
    "wrong",
    [{"period": 0.0}, {"period": 1e6}, {"view_size": 19}, {"view_size": 101}, {"warm_size": 0}, {"warm_size": 13}],
)
def test_settings_outside_their_ranges_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Settings(**wrong)


def test_an_unrelated_undelivered_message_leaves_an_exchange_waiting(identities: Identities) -> None:
    """The exchange's own reply still counts, and the peer loses its warm channel."""
    me, *others = identities[:3]
    member = _knowing(me, others)
    (target,) = _targets(member.tick(0.0))
    member.on_missed(target, 0.5)
    assert target not in {contact.node_id for contact in member.warm()}
    answering = next(other for other in others if other.node_id == target)
    assert [type(effect) for effect in member.on_reply(target, _exchange(answering, 2), 1.0)] == [Remember]
    assert member.traffic["failed"] == 0


def test_no_peer_is_blamed_or_replaced_while_this_device_is_offline(identities: Identities) -> None:
    me, *others = identities[:9]
    member = _knowing(me, others)
    warm = member.warm()
    for period in range(20):
        (target,) = _targets(member.tick(60.0 * period))
        assert member.on_failure(target, 60.0 * period + 1.0, blamed=False) == []
    assert len(member.warm()) == len(warm)
    assert len(member.view) == 8
    assert member.traffic["failed"] == 20


def test_peers_that_are_reachable_again_are_tried_at_once(identities: Identities) -> None:
    me, *others = identities[:3]
    member = _knowing(me, others)
    for peer in others:
        member.on_failure(peer.node_id, 0.0)
    assert member.warm() == ()
    member.on_peer_reachable(others[0].node_id, 0.1)
    assert [contact.node_id for contact in member.warm()] == [others[0].node_id]
    member.on_peer_reachable(None, 0.1)
    assert len(member.warm()) == 2
