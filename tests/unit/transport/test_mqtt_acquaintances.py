"""Acquaintances on the broker, and a device's own presence: nothing old is taken for new."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.identity import Fleet, Identity, Trust, enrol
from sottovoce.transport.mqtt import acquaintances as module
from sottovoce.transport.mqtt.acquaintances import Acquaintances
from sottovoce.transport.mqtt.notary import Notary
from sottovoce.transport.mqtt.presence import Echo, Presence
from sottovoce.transport.mqtt.secrecy import SessionKey

from tests.support.fleets import ending_in, new_fleet
from tests.support.introductions import a_key, altered, introduced_by, renewed


class Here:
    """One device's knowledge of others, and those that it was told have started over."""

    def __init__(self, identity: Identity) -> None:
        self.trust = Trust(identity)
        self.restarted: list[str | None] = []
        notary = Notary(self.trust)
        self.presence = Presence(self.trust, notary, 1)
        self.now = datetime.now(UTC)
        self.known = Acquaintances(self.presence, notary, self.restarted.append, now=lambda: self.now)

    def refuses(self, device: Identity, raw: bytes) -> str:
        with pytest.raises(MessageRefused) as refused:
            self.known.meet(device.node_id, raw)
        return refused.value.reason


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Callable[[str], Identity]:
    return lambda name: enrol(fleet, tmp_path / name)


@pytest.fixture
def here(device: Callable[[str], Identity]) -> Here:
    return Here(device("here"))


@pytest.fixture
def there(device: Callable[[str], Identity]) -> Identity:
    return device("there")


def test_who_was_introduced_is_known_until_something_newer_is_said(here: Here, there: Identity) -> None:
    key = a_key()
    assert here.known.find(there.node_id) is None
    first = here.known.meet(there.node_id, introduced_by(there, key, 1, 1))
    assert here.known.find(there.node_id) is first
    said = []
    for sequence, gone in ((2, True), (3, False)):
        assert here.known.meet(there.node_id, introduced_by(there, key, 1, sequence, gone=gone)) is first
        said.append(first.is_gone)
    assert said == [True, False]
    assert (here.known.met, here.restarted) == (1, [])


def test_an_older_word_with_the_same_key_changes_nothing(here: Here, there: Identity) -> None:
    """It came with a frame that was on its way when a newer one was heard."""
    key = a_key()
    known = here.known.meet(there.node_id, introduced_by(there, key, 1, 4, gone=True))
    assert here.known.meet(there.node_id, introduced_by(there, key, 1, 3)) is known
    assert known.is_gone
    assert known.introduced.version == (1, 4)


def test_what_is_older_than_what_is_known_is_refused(here: Here, there: Identity) -> None:
    key, before = a_key(), a_key()
    known = here.known.meet(there.node_id, introduced_by(there, key, 2, 3))
    old = [introduced_by(there, before, 1, 9), introduced_by(there, key, 2, 2, gone=True), introduced_by(there, before)]
    assert {here.refuses(there, raw) for raw in old} == {"replayed"}
    assert here.known.find(there.node_id) is known
    assert not known.is_gone


def test_a_restart_is_another_channel_and_the_key_before_does_not_come_back(here: Here, there: Identity) -> None:
    """A copy of a device that takes turns with it would have what was sent before opened again."""
    first, second = a_key(), a_key()
    one = here.known.meet(there.node_id, introduced_by(there, first, 1, 1))
    other = here.known.meet(there.node_id, introduced_by(there, second, 2, 1))
    assert one.channel is not other.channel
    assert here.restarted == [there.node_id]
    assert here.refuses(there, introduced_by(there, first, 3, 1)) == "replayed"
    assert here.known.find(there.node_id) is other


def test_a_forged_word_changes_nothing(here: Here, there: Identity) -> None:
    known = here.known.meet(there.node_id, introduced_by(there, a_key(), 1, 1))
    forged = altered(introduced_by(there, known.introduced.session_key, 1, 1), sequence=2, gone=True)
    assert here.refuses(there, forged) == "signature"
    assert (known.is_gone, known.introduced.version) == (False, (1, 1))


def test_a_key_that_is_none_ends_nothing_that_goes_on(here: Here, there: Identity) -> None:
    known = here.known.meet(there.node_id, introduced_by(there, a_key(), 1, 1))
    assert here.refuses(there, introduced_by(there, bytes(32), 2, 1)) == "malformed"
    assert here.known.find(there.node_id) is known
    assert here.restarted == []


def test_whose_certificate_has_ended_is_known_no_more_until_it_is_renewed(
    here: Here, fleet: Fleet, tmp_path: Path
) -> None:
    brief = enrol(fleet, tmp_path / "brief", validity=ending_in(30))
    key, now = a_key(), datetime.now(UTC)
    known = here.known.meet(brief.node_id, introduced_by(brief, key))
    assert here.known.find(brief.node_id) is known
    here.now = now + timedelta(seconds=60)
    assert here.known.find(brief.node_id) is None
    assert brief.node_id in here.known
    here.known.meet(brief.node_id, introduced_by(renewed(fleet, tmp_path / "brief"), key, 1, 2))
    assert here.known.find(brief.node_id) is known


def test_who_is_not_of_the_fleet_any_more_is_known_no_more(
    here: Here, there: Identity, fleet: Fleet, tmp_path: Path
) -> None:
    """This device has begun to trust another authority; anyone who that one has not enrolled is refused."""
    known = here.known.meet(there.node_id, introduced_by(there, a_key()))
    known.has_answered = True
    here.known.note_trust_change()
    assert here.known.find(there.node_id) is known
    assert not known.has_answered  # that this device may have another certificate
    elsewhere = enrol(new_fleet(tmp_path / "elsewhere", there.fleet), tmp_path / "x")
    here.trust._identity = elsewhere
    here.known.note_trust_change()
    assert here.known.find(there.node_id) is None
    assert here.known.find(there.node_id) is None


async def test_who_is_waited_for_comes(here: Here, there: Identity, device: Callable[[str], Identity]) -> None:
    other = device("other")
    waiting = [asyncio.create_task(here.known.wait_for(there.node_id)) for _ in range(2)]
    cancelled = asyncio.create_task(here.known.wait_for(there.node_id))
    await asyncio.sleep(0)
    cancelled.cancel()
    here.known.meet(other.node_id, introduced_by(other, a_key()))
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    known = here.known.meet(there.node_id, introduced_by(there, a_key()))
    assert await asyncio.gather(*waiting) == [known, known]


def test_of_one_device_too_many_this_one_begins_anew(
    here: Here, device: Callable[[str], Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is forgotten of the first could be told to it again, and would be taken in again."""
    monkeypatch.setattr(module, "_MAX_KNOWN", 3)
    key = here.presence.key.public
    others = [device(f"d{i}") for i in range(4)]
    raws = [introduced_by(one, a_key()) for one in others]
    for one, raw in zip(others[:3], raws, strict=False):
        here.known.meet(one.node_id, raw)
    assert here.presence.key.public == key
    here.known.meet(others[3].node_id, raws[3])
    assert here.presence.key.public != key
    assert here.restarted == [None]
    assert [one.node_id in here.known for one in others] == [False, False, False, True]


class TestPresence:
    """What a device says of itself."""

    def test_each_word_is_newer_than_those_before(self, here: Here, there: Identity) -> None:
        presence, other = here.presence, Here(there)
        own = presence.device
        for _ in range(3):
            assert not other.known.meet(own, presence.presence_announcement()).is_gone
            farewell = presence.departure_announcement()
            assert other.known.meet(own, farewell).is_gone
            presence.renew()
            assert not other.known.meet(own, presence.presence_announcement()).is_gone
            with pytest.raises(MessageRefused):
                other.known.meet(own, farewell)
        presence.renew_key()
        assert not other.known.meet(own, presence.presence_announcement()).is_gone
        assert other.restarted == [own]

    def test_it_finds_its_own_words_on_the_broker(self, here: Here) -> None:
        presence = here.presence
        before = presence.presence_announcement()
        assert presence.check_echo(before) is Echo.AGREES
        presence.renew()
        assert presence.check_echo(before) is Echo.AGREES
        presence.renew_key()
        assert presence.check_echo(before) is Echo.AGREES  # with another key, but older than the present one

    def test_a_farewell_that_came_late_is_contradicted(self, here: Here) -> None:
        presence = here.presence
        late = presence.departure_announcement()
        presence.renew()
        said = presence.presence_announcement()
        assert presence.check_echo(late) is Echo.DENIES
        assert presence.presence_announcement() == said

    def test_a_farewell_that_is_newer_than_what_it_says_is_outdone(self, here: Here, there: Identity) -> None:
        """The broker has had it since the connection was made, and need not wait until it breaks."""
        presence, other = here.presence, Here(there)
        other.known.meet(presence.device, presence.presence_announcement())
        lie = presence.departure_announcement()
        assert presence.check_echo(lie) is Echo.DENIES
        assert other.known.meet(presence.device, lie).is_gone
        assert not other.known.meet(presence.device, presence.presence_announcement()).is_gone

    def test_a_copy_is_noticed_and_an_earlier_start_is_none(self, here: Here) -> None:
        identity, key = here.trust.identity, SessionKey().public
        assert here.presence.check_echo(introduced_by(identity, key, 1, 1)) is Echo.COPY
        assert here.presence.check_echo(introduced_by(identity, key, 2, 1, gone=True)) is Echo.COPY
        later = Presence(here.trust, Notary(here.trust), 2)
        assert later.check_echo(introduced_by(identity, key, 1, 99)) is Echo.AGREES
        assert later.check_echo(introduced_by(identity, key, 1, 99, gone=True)) is Echo.DENIES

    def test_nobody_else_can_deny_it_or_copy_it(self, here: Here) -> None:
        presence = here.presence
        said = presence.presence_announcement()
        for forged in (
            altered(presence.departure_announcement(), sequence=1000),
            altered(said, sequence=1000, session_key=a_key()),
            altered(said, incarnation=7, session_key=a_key(), gone=True),
        ):
            with pytest.raises(MessageRefused) as refused:
                presence.check_echo(forged)
            assert refused.value.reason == "signature"
        assert presence.presence_announcement() == said
