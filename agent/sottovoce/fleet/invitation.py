"""Invitations to a fleet: either a bundle file with everything that a new device needs, or a short-lived token.

A bundle contains the keys that its fleet made for one device, so anyone who has the file can act as that device. The
first device that joins with a bundle replaces the file with a note. A token contains no key. It contains the enroller's
address, a fingerprint that identifies the enroller's certificate, and a secret that proves to the enroller that the
device was invited.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from sottovoce.errors import IdentityError
from sottovoce.fleet.files import exclusive, read, replace
from sottovoce.fleet.new_device import DeviceKeys

SEEDS = "seeds.json"
MAX_SEEDS = 64
MAX_BUNDLE_BYTES = 64 * 2**10
_SECRET_BYTES = 16
_FINGERPRINT_BYTES = 16  # prefix of a SHA-256 digest, long enough to resist second-preimage attacks
_TOKEN = re.compile(r"sottovoce1:(?P<address>(?:\[[0-9a-fA-F:]+\]|[^:\s/]+):[0-9]{1,5})/(?P<word>[a-z2-7]{52})")
_REMEDY = "ask the fleet's key holder to create a new one with `sottovoce fleet invite`"


class Seed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A contact that a new device tries first.

    Attributes:
        id: the contact's node id.
        endpoints: 1 to 4 addresses, host:port or mqtt:REALM.
    """

    id: str
    endpoints: tuple[str, ...]


class Broker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fleet's MQTT broker, for devices that cannot connect directly.

    Attributes:
        url: the broker's URL, mqtts://host:port.
        realm: the broker's public name.
    """

    url: str
    realm: str


class PromisedBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The privacy budget that every device in a fleet promises for its ledger.

    Attributes:
        epsilon: total ε for one privacy unit.
        delta: total δ for one privacy unit.
        unit: the privacy unit.
        neighbouring: the neighbouring relation.
    """

    epsilon: Annotated[float, msgspec.Meta(gt=0)]
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    unit: Literal["record", "window", "device"]
    neighbouring: Literal["add-remove", "replace-one"]


class Seeds(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="schema",
    tag="sottovoce.seeds/1",
):
    """Hints that help a new device to find its fleet. Addresses are not trusted: TLS verifies each peer.

    Attributes:
        contacts: devices to try first, at most 64.
        broker: the fleet's broker; None if it has none.
        promised: the promised budget of the device's ledger; None if each device decides for itself.
    """

    contacts: tuple[Seed, ...] = ()
    broker: Broker | None = None
    promised: PromisedBudget | None = None


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="sottovoce.bundle/1"):
    """Everything that a new device needs, including its private keys.

    Attributes:
        fleet: the fleet's name.
        id: the device's node id.
        device_key: the device's identity key, PEM.
        tls_key: the device's TLS key, PEM.
        certificate: the device's certificate, PEM.
        fleet_certificate: the fleet's certificate, PEM.
        seeds: contacts through which the device finds the fleet.
    """

    fleet: str
    id: str
    device_key: str
    tls_key: str
    certificate: str
    fleet_certificate: str
    seeds: Seeds

    def __repr__(self) -> str:
        """Return a representation without the keys."""
        return f"Bundle(fleet={self.fleet!r}, id={self.id!r})"

    @property
    def keys(self) -> DeviceKeys:
        """The device's keys.

        Raises:
            IdentityError: if a key is malformed.
        """
        return DeviceKeys.decode(self.device_key.encode(), self.tls_key.encode(), "the bundle")


class UsedBundle(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="sottovoce.bundle-used/1"
):
    """The note that replaces a bundle after a device has joined with it.

    Attributes:
        fleet: the fleet's name.
        id: the device's node id.
    """

    fleet: str
    id: str


@dataclass(frozen=True, slots=True)
class Token:
    """A single-use invitation, short enough to type or scan.

    Attributes:
        address: host:port of the enroller.
        secret: 16 bytes that only the enroller and the invited device know.
        fingerprint: the first 16 bytes of the SHA-256 digest of the enroller's DER-encoded TLS certificate.
    """

    address: str
    secret: bytes = field(repr=False)
    fingerprint: bytes

    @classmethod
    def create(cls, address: str, certificate: bytes) -> Self:
        """Return a token with a new secret, for the enroller with this DER certificate."""
        return cls(address, secrets.token_bytes(_SECRET_BYTES), _fingerprint(certificate))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Decode a token from text, ignoring white space and letter case.

        Raises:
            IdentityError: if the text is not a token.
        """
        match = _TOKEN.fullmatch("".join(text.split()).lower())
        if match is None:
            raise IdentityError(
                f"the token is incomplete (a token has the form sottovoce1:HOST:PORT/52 characters): {_REMEDY}"
            )
        payload = base64.b32decode(match["word"].upper() + "====")
        return cls(match["address"], payload[:_SECRET_BYTES], payload[_SECRET_BYTES:])

    def __str__(self) -> str:
        """Return the token as text to type, paste or scan; the text is secret."""
        payload = base64.b32encode(self.secret + self.fingerprint).decode("ascii").rstrip("=").lower()
        return f"sottovoce1:{self.address}/{payload}"

    def is_enroller(self, certificate: bytes) -> bool:
        """Return whether this DER certificate is the enroller's."""
        return hmac.compare_digest(_fingerprint(certificate), self.fingerprint)

    def admits(self, secret: str) -> bool:
        """Return whether this hexadecimal secret is the token's secret."""
        try:
            return hmac.compare_digest(bytes.fromhex(secret), self.secret)
        except ValueError:
            return False


def read_bundle(path: Path) -> Bundle:
    """Read a bundle that no device has used yet.

    Raises:
        IdentityError: if the bundle cannot be read, is corrupt, or a device has already joined with it.
    """
    raw = read(path)
    try:
        if len(raw) > MAX_BUNDLE_BYTES:
            raise ValueError("too large")
        bundle = msgspec.json.decode(raw, type=Bundle | UsedBundle)
    except (msgspec.MsgspecError, ValueError) as error:
        raise IdentityError(f"{path} is incomplete or not a bundle ({error}): {_REMEDY}") from error
    if isinstance(bundle, UsedBundle):
        raise IdentityError(f"{path}: this single-device bundle has already been used by device {bundle.id}; {_REMEDY}")
    check_seeds(bundle.seeds)
    return bundle


def void_bundle(path: Path, bundle: Bundle) -> None:
    """Replace a bundle with a note, which prevents other devices from joining with it.

    Raises:
        IdentityError: if another process has used the bundle since it was read, or the note cannot be written.
    """
    with exclusive(path.parent):
        read_bundle(path)
        try:
            replace(path, msgspec.json.encode(UsedBundle(bundle.fleet, bundle.id)) + b"\n")
        except IdentityError as error:
            raise IdentityError(
                f"{error}. A bundle must be in a writable directory, where it can be marked as used; move it to one"
            ) from error


def write_seeds(state: Path, seeds: Seeds) -> None:
    """Write the seeds to a state directory."""
    replace(state / SEEDS, msgspec.json.encode(seeds) + b"\n")


def read_seeds(state: Path) -> Seeds:
    """Return the seeds from the device's invitation, or empty seeds if the device joined without an invitation.

    Raises:
        IdentityError: if the file cannot be read or is corrupt.
    """
    path = state / SEEDS
    if not path.exists():
        return Seeds()
    try:
        seeds = msgspec.json.decode(read(path), type=Seeds)
    except msgspec.MsgspecError as error:
        raise IdentityError(f"{path} is corrupt ({error}); delete it, and list a peer under transport.peers") from error
    check_seeds(seeds)
    return seeds


def check_seeds(seeds: Seeds) -> None:
    """Raise IdentityError if there are too many contacts."""
    if len(seeds.contacts) > MAX_SEEDS:
        raise IdentityError(
            f"the invitation lists {len(seeds.contacts)} contacts, but the limit is {MAX_SEEDS}; {_REMEDY}"
        )


def _fingerprint(certificate: bytes) -> bytes:
    return hashlib.sha256(certificate).digest()[:_FINGERPRINT_BYTES]
