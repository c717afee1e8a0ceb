"""KnownDevices on the broker, and a device's own presence: an old introduction never counts as new."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports.mqtt import known_devices as module
from sottovoce.net.transports.mqtt.known_devices import KnownDevices
from sottovoce.net.transports.mqtt.presence import Echo, IntroductionVerifier, Presence
from sottovoce.net.transports.mqtt.secrecy import SessionKey
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import new_fleet, validity_ending_in
from tests.support.introductions import a_key, alter_introduction, make_introduction, renew_certificate
from tests.support.waiting import let_others_run


class Here:
    """One device's knowledge of others, and the devices reported as restarted."""

    def __init__(self, identity: Identity) -> None:
        self.trust = Trust(identity)
        self.restarted: list[str | None] = []
        notary = IntroductionVerifier(self.trust)
        self.presence = Presence(self.trust, notary, 1)
        self.now = datetime.now(UTC)
        self.known = KnownDevices(self.presence, notary, self.restarted.append, now=lambda: self.now)

    def refuses(self, device: Identity, raw: bytes) -> str:
        with pytest.raises(MessageRefused) as exc_info:
            self.known.add(device.node_id, raw)
        return exc_info.value.reason


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Callable[[str], Identity]:
    return lambda name: enrol(fleet, tmp_path / name)


@pytest.fixture
def this_device(device: Callable[[str], Identity]) -> Here:
    return Here(device("here"))


@pytest.fixture
def other_device(device: Callable[[str], Identity]) -> Identity:
    return device("there")


def test_an_introduced_device_is_known_until_a_newer_introduction(this_device: Here, other_device: Identity) -> None:
    key = a_key()
    assert this_device.known.find(other_device.node_id) is None
    first = this_device.known.add(other_device.node_id, make_introduction(other_device, key, 1, 1))
    assert this_device.known.find(other_device.node_id) is first
    messages = []
    for sequence, gone in ((2, True), (3, False)):
        assert (
            this_device.known.add(other_device.node_id, make_introduction(other_device, key, 1, sequence, gone=gone))
            is first
        )
        messages.append(first.is_gone)
    assert messages == [True, False]
    assert (this_device.known.introductions, this_device.restarted) == (1, [])


def test_an_older_introduction_with_the_same_key_changes_nothing(this_device: Here, other_device: Identity) -> None:
    """It arrived with a frame that was in transit when a newer one was received."""
    key = a_key()
    known = this_device.known.add(other_device.node_id, make_introduction(other_device, key, 1, 4, gone=True))
    assert this_device.known.add(other_device.node_id, make_introduction(other_device, key, 1, 3)) is known
    assert known.is_gone
    assert known.introduced.version == (1, 4)


def test_an_introduction_older_than_the_known_one_is_refused(this_device: Here, other_device: Identity) -> None:
    key, before = a_key(), a_key()
    known = this_device.known.add(other_device.node_id, make_introduction(other_device, key, 2, 3))
    old = [
        make_introduction(other_device, before, 1, 9),
        make_introduction(other_device, key, 2, 2, gone=True),
        make_introduction(other_device, before),
    ]
    assert {this_device.refuses(other_device, raw) for raw in old} == {"replayed"}
    assert this_device.known.find(other_device.node_id) is known
    assert not known.is_gone


def test_a_restart_creates_another_channel_and_the_previous_key_does_not_return(
    this_device: Here, other_device: Identity
) -> None:
    """Otherwise, a copy that takes turns with a device could have its earlier messages opened again."""
    first, second = a_key(), a_key()
    one = this_device.known.add(other_device.node_id, make_introduction(other_device, first, 1, 1))
    other = this_device.known.add(other_device.node_id, make_introduction(other_device, second, 2, 1))
    assert one.channel is not other.channel
    assert this_device.restarted == [other_device.node_id]
    assert this_device.refuses(other_device, make_introduction(other_device, first, 3, 1)) == "replayed"
    assert this_device.known.find(other_device.node_id) is other


def test_a_forged_introduction_changes_nothing(this_device: Here, other_device: Identity) -> None:
    known = this_device.known.add(other_device.node_id, make_introduction(other_device, a_key(), 1, 1))
    forged = alter_introduction(
        make_introduction(other_device, known.introduced.session_key, 1, 1), sequence=2, gone=True
    )
    assert this_device.refuses(other_device, forged) == "signature"
    assert (known.is_gone, known.introduced.version) == (False, (1, 1))


def test_an_invalid_key_ends_no_existing_channel(this_device: Here, other_device: Identity) -> None:
    known = this_device.known.add(other_device.node_id, make_introduction(other_device, a_key(), 1, 1))
    assert this_device.refuses(other_device, make_introduction(other_device, bytes(32), 2, 1)) == "malformed"
    assert this_device.known.find(other_device.node_id) is known
    assert this_device.restarted == []


def test_a_device_with_an_expired_certificate_is_unknown_until_renewal(
    this_device: Here, fleet: Fleet, tmp_path: Path
) -> None:
    brief = enrol(fleet, tmp_path / "brief", validity=validity_ending_in(30))
    key, now = a_key(), datetime.now(UTC)
    known = this_device.known.add(brief.node_id, make_introduction(brief, key))
    assert this_device.known.find(brief.node_id) is known
    this_device.now = now + timedelta(seconds=60)
    assert this_device.known.find(brief.node_id) is None
    assert brief.node_id in this_device.known
    this_device.known.add(brief.node_id, make_introduction(renew_certificate(fleet, tmp_path / "brief"), key, 1, 2))
    assert this_device.known.find(brief.node_id) is known


def test_a_device_that_left_the_fleet_becomes_unknown(
    this_device: Here, other_device: Identity, fleet: Fleet, tmp_path: Path
) -> None:
    """This device has switched to another authority, and refuses any device that the authority has not enrolled."""
    known = this_device.known.add(other_device.node_id, make_introduction(other_device, a_key()))
    known.has_answered = True
    this_device.known.invalidate_all()
    assert this_device.known.find(other_device.node_id) is known
    assert not known.has_answered  # because this device may have another certificate
    elsewhere = enrol(new_fleet(tmp_path / "elsewhere", other_device.fleet), tmp_path / "x")
    this_device.trust._identity = elsewhere
    this_device.known.invalidate_all()
    assert this_device.known.find(other_device.node_id) is None
    assert this_device.known.find(other_device.node_id) is None


async def test_an_awaited_device_arrives(
    this_device: Here, other_device: Identity, device: Callable[[str], Identity]
) -> None:
    other = device("other")
    waiting = [asyncio.create_task(this_device.known.wait_for(other_device.node_id)) for _ in range(2)]
    cancelled = asyncio.create_task(this_device.known.wait_for(other_device.node_id))
    await let_others_run()
    cancelled.cancel()
    this_device.known.add(other.node_id, make_introduction(other, a_key()))
    await let_others_run()
    assert not any(task.done() for task in waiting)
    known = this_device.known.add(other_device.node_id, make_introduction(other_device, a_key()))
    assert await asyncio.gather(*waiting) == [known, known]


def test_one_device_too_many_makes_this_one_start_over(
    this_device: Here, device: Callable[[str], Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, forgotten messages from the first device could be repeated and accepted again."""
    monkeypatch.setattr(module, "_MAX_KNOWN", 3)
    key = this_device.presence.key.public
    others = [device(f"d{i}") for i in range(4)]
    raws = [make_introduction(item, a_key()) for item in others]
    for item, raw in zip(others[:3], raws, strict=False):
        this_device.known.add(item.node_id, raw)
    assert this_device.presence.key.public == key
    this_device.known.add(others[3].node_id, raws[3])
    assert this_device.presence.key.public != key
    assert this_device.restarted == [None]
    assert [item.node_id in this_device.known for item in others] == [False, False, False, True]


class TestPresence:
    """A device's own introductions."""

    def test_each_introduction_is_newer_than_the_previous_ones(self, this_device: Here, other_device: Identity) -> None:
        presence, other = this_device.presence, Here(other_device)
        own = presence.device
        for _ in range(3):
            assert not other.known.add(own, presence.presence_announcement()).is_gone
            farewell = presence.departure_announcement()
            assert other.known.add(own, farewell).is_gone
            presence.renew()
            assert not other.known.add(own, presence.presence_announcement()).is_gone
            with pytest.raises(MessageRefused):
                other.known.add(own, farewell)
        presence.renew_key()
        assert not other.known.add(own, presence.presence_announcement()).is_gone
        assert other.restarted == [own]

    def test_it_finds_its_own_introductions_on_the_broker(self, this_device: Here) -> None:
        presence = this_device.presence
        before = presence.presence_announcement()
        assert presence.check_echo(before) is Echo.AGREES
        presence.renew()
        assert presence.check_echo(before) is Echo.AGREES
        presence.renew_key()
        assert presence.check_echo(before) is Echo.AGREES  # with another key, but older than the current one

    def test_a_late_farewell_is_contradicted(self, this_device: Here) -> None:
        presence = this_device.presence
        late = presence.departure_announcement()
        presence.renew()
        announcement = presence.presence_announcement()
        assert presence.check_echo(late) is Echo.DENIES
        assert presence.presence_announcement() == announcement

    def test_a_farewell_newer_than_the_presence_is_superseded(self, this_device: Here, other_device: Identity) -> None:
        """The broker has had the farewell since the connection began, and need not wait until it breaks."""
        presence, other = this_device.presence, Here(other_device)
        other.known.add(presence.device, presence.presence_announcement())
        lie = presence.departure_announcement()
        assert presence.check_echo(lie) is Echo.DENIES
        assert other.known.add(presence.device, lie).is_gone
        assert not other.known.add(presence.device, presence.presence_announcement()).is_gone

    def test_a_copy_is_detected_and_an_earlier_start_is_not_one(self, this_device: Here) -> None:
        identity, key = this_device.trust.identity, SessionKey().public
        assert this_device.presence.check_echo(make_introduction(identity, key, 1, 1)) is Echo.COPY
        assert this_device.presence.check_echo(make_introduction(identity, key, 2, 1, gone=True)) is Echo.COPY
        later = Presence(this_device.trust, IntroductionVerifier(this_device.trust), 2)
        assert later.check_echo(make_introduction(identity, key, 1, 99)) is Echo.AGREES
        assert later.check_echo(make_introduction(identity, key, 1, 99, gone=True)) is Echo.DENIES

    def test_no_other_device_can_deny_or_copy_it(self, this_device: Here) -> None:
        presence = this_device.presence
        announcement = presence.presence_announcement()
        for forged in (
            alter_introduction(presence.departure_announcement(), sequence=1000),
            alter_introduction(announcement, sequence=1000, session_key=a_key()),
            alter_introduction(announcement, incarnation=7, session_key=a_key(), gone=True),
        ):
            with pytest.raises(MessageRefused) as exc_info:
                presence.check_echo(forged)
            assert exc_info.value.reason == "signature"
        assert presence.presence_announcement() == announcement
