"""Presence of a device on the broker: its id and key, and whether it is present or gone."""

from enum import Enum, auto

from sottovoce.identity.trust import Trust
from sottovoce.transport.mqtt.introduction import introduction, read_claim
from sottovoce.transport.mqtt.notary import Notary
from sottovoce.transport.mqtt.secrecy import SessionKey


class Echo(Enum):
    """Kind of the broker's retained message in a device's own name."""

    AGREES = auto()  # says that the device is there, or was
    DENIES = auto()  # says that the device is gone
    COPY = auto()  # is from another device with this identity


class Presence:
    """Presence of this device. The newer of two announcements has the higher version.

    Args:
        trust: identity of this device.
        notary: verifier of messages in this device's name.
        incarnation: number of starts of the device.

    Attributes:
        fleet: fleet of the device.
        device: node id of the device.
        key: session key of the device.
    """

    def __init__(self, trust: Trust, notary: Notary, incarnation: int) -> None:
        self.fleet, self.device = trust.identity.fleet, trust.identity.node_id
        self.key = SessionKey()
        self._notary = notary
        self._trust = trust
        self._incarnation = incarnation
        self._sequence = 2
        self._since = 1  # the number of the first introduction with this key
        self._said: dict[bool, bytes] = {}

    def presence_announcement(self) -> bytes:
        """Return the announcement that this device is present."""
        return self._introduction(gone=False)

    def departure_announcement(self) -> bytes:
        """Return the announcement that this device is gone; newer than that of `here`, older than after `renew`."""
        return self._introduction(gone=True)

    def renew(self) -> None:
        """Make later announcements newer than all earlier ones."""
        self._sequence += 2
        self._said.clear()

    def begin_anew(self) -> None:
        """Adopt another key: messages sealed for the previous key are refused from now on."""
        self.key = SessionKey()
        self.renew()
        self._since = self._sequence - 1

    def check_echo(self, raw: bytes) -> Echo:
        """Check the broker's message in this device's name; if it is newer, later announcements become newer still.

        Args:
            raw: an introduction.

        Raises:
            MessageRefused: if it does not hold.
        """
        if raw == self.presence_announcement():
            return Echo.AGREES
        claim = read_claim(raw, self.fleet, self.device)
        if claim.session_key != self.key.public and claim.version >= (self._incarnation, self._since):
            self._notary.verify(claim)
            return Echo.COPY
        if not claim.gone:
            return Echo.AGREES
        if claim.version > self._version:
            self._notary.verify(claim)
            self.renew()
        return Echo.DENIES

    @property
    def _version(self) -> tuple[int, int]:
        """Return the version of the announcement that this device is present."""
        return self._incarnation, self._sequence - 1

    def _introduction(self, *, gone: bool) -> bytes:
        if gone not in self._said:
            sequence = self._sequence if gone else self._sequence - 1
            identity, key = self._trust.identity, self.key.public
            self._said[gone] = introduction(identity, self._incarnation, sequence, key, gone=gone)
        return self._said[gone]
