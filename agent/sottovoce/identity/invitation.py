"""Invitations to a fleet: a file with everything a new device needs, or a short-lived token; and their common content.

A bundle holds the keys that its fleet made for one device: anyone who has the file is that device, and the first to
join from it leaves only a note in its place. A token holds no key: it names the enroller that will answer, the
certificate by which the enroller is known, and a secret by which the enroller knows who was invited.
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
from sottovoce.identity.files import read, replace
from sottovoce.identity.new_device import DeviceKeys

SEEDS = "seeds.json"
MAX_SEEDS = 64
MAX_BUNDLE_BYTES = 64 * 2**10
_SECRET_BYTES = 16
_FINGERPRINT_BYTES = 16  # of SHA-256: enough that no one finds a second certificate with it
_TOKEN = re.compile(r"sottovoce1:(?P<address>(?:\[[0-9a-fA-F:]+\]|[^:\s/]+):[0-9]{1,5})/(?P<word>[a-z2-7]{52})")
_AGAIN = "ask for a new one, which the holder of the fleet's key makes with `sottovoce fleet invite`"


class Seed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contact that a device tries first.

    Attributes:
        id: node id.
        endpoints: 1 to 4 addresses, host:port or mqtt:REALM.
    """

    id: str
    endpoints: tuple[str, ...]


class Broker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The MQTT broker of the fleet, for devices that have no better way.

    Attributes:
        url: mqtts://host:port.
        realm: its public name.
    """

    url: str
    realm: str


class Promised(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Promise of all devices of a fleet: the budget of their ledgers.

    Attributes:
        epsilon: total ε of one privacy unit.
        delta: total δ.
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
    """Hints for a new device about its fleet. An address is only a hint: TLS proves who answers.

    Attributes:
        contacts: at most 64.
        broker: None when there is none.
        promised: the budget of its ledger; None where each device decides.
    """

    contacts: tuple[Seed, ...] = ()
    broker: Broker | None = None
    promised: Promised | None = None


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="sottovoce.bundle/1"):
    """Complete set of files for a new device, its private keys included.

    Attributes:
        fleet: the fleet's name.
        id: the device's node id.
        device_key: its identity key, PEM.
        tls_key: its TLS key, PEM.
        certificate: its certificate, PEM.
        fleet_certificate: certificate of the fleet, PEM.
        seeds: contacts through which to find the fleet.
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
            IdentityError: if they are malformed.
        """
        return DeviceKeys.decode(self.device_key.encode(), self.tls_key.encode(), "the bundle")


class Used(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="sottovoce.bundle-used/1"):
    """Note that replaces a bundle once a device has joined with it.

    Attributes:
        fleet: the fleet's name.
        id: the device's node id.
    """

    fleet: str
    id: str


@dataclass(frozen=True, slots=True)
class Token:
    """A single-use invitation, short enough to type or to scan.

    Attributes:
        address: host:port of the enroller.
        secret: 16 bytes that only the enroller and the invited know.
        fingerprint: the first 16 bytes of the SHA-256 of the enroller's TLS certificate, DER.
    """

    address: str
    secret: bytes = field(repr=False)
    fingerprint: bytes

    @classmethod
    def draw(cls, address: str, certificate: bytes) -> Self:
        """Return a new token for an enroller with this certificate, DER."""
        return cls(address, secrets.token_bytes(_SECRET_BYTES), _fingerprint(certificate))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read a token from a text; blanks and upper case do not matter.

        Raises:
            IdentityError: if it is not a token.
        """
        match = _TOKEN.fullmatch("".join(text.split()).lower())
        if match is None:
            raise IdentityError(
                f"the token is incomplete (it has the form sottovoce1:HOST:PORT/52 characters): {_AGAIN}"
            )
        word = base64.b32decode(match["word"].upper() + "====")
        return cls(match["address"], word[:_SECRET_BYTES], word[_SECRET_BYTES:])

    def __str__(self) -> str:
        """Return the token to type, paste or scan; secret."""
        word = base64.b32encode(self.secret + self.fingerprint).decode("ascii").rstrip("=").lower()
        return f"sottovoce1:{self.address}/{word}"

    def is_enroller(self, certificate: bytes) -> bool:
        """Return whether this certificate, DER, is the enroller's."""
        return hmac.compare_digest(_fingerprint(certificate), self.fingerprint)

    def admits(self, secret: str) -> bool:
        """Return whether this secret, in hexadecimal, is that of an invited device."""
        try:
            return hmac.compare_digest(bytes.fromhex(secret), self.secret)
        except ValueError:
            return False


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write a bundle, for its owner alone.

    Raises:
        IdentityError: if there is a file already, or it cannot be written.
    """
    if path.exists():
        raise IdentityError(f"{path} exists and is never overwritten: choose another name")
    replace(path, msgspec.json.format(msgspec.json.encode(bundle), indent=2) + b"\n")


def read_bundle(path: Path) -> Bundle:
    """Read a bundle.

    Raises:
        IdentityError: if it cannot be read, is damaged, or a device has joined from it.
    """
    raw = read(path)
    try:
        if len(raw) > MAX_BUNDLE_BYTES:
            raise ValueError("too large")
        bundle = msgspec.json.decode(raw, type=Bundle | Used)
    except (msgspec.MsgspecError, ValueError) as error:
        raise IdentityError(f"{path} is incomplete or not a bundle ({error}): {_AGAIN}") from error
    if isinstance(bundle, Used):
        raise IdentityError(
            f"{path}: device {bundle.id} has already used this bundle, which is for one device: {_AGAIN}"
        )
    check_seeds(bundle.seeds)
    return bundle


def use_bundle(path: Path, bundle: Bundle) -> None:
    """Replace a bundle by a note, so that no other device can join with it.

    Raises:
        IdentityError: if it cannot be written.
    """
    try:
        replace(path, msgspec.json.encode(Used(bundle.fleet, bundle.id)) + b"\n")
    except IdentityError as error:
        raise IdentityError(f"{error}. A bundle must be where it can be marked as used: move it there") from error


def write_seeds(state: Path, seeds: Seeds) -> None:
    """Store the seeds in a state directory."""
    replace(state / SEEDS, msgspec.json.encode(seeds) + b"\n")


def read_seeds(state: Path) -> Seeds:
    """Return seeds from the invitation; empty for a device that joined without one.

    Raises:
        IdentityError: if the file cannot be read or is damaged.
    """
    path = state / SEEDS
    if not path.exists():
        return Seeds()
    try:
        seeds = msgspec.json.decode(read(path), type=Seeds)
    except msgspec.MsgspecError as error:
        raise IdentityError(f"{path} is damaged ({error}): remove it, and list a peer under transport.peers") from error
    check_seeds(seeds)
    return seeds


def check_seeds(seeds: Seeds) -> None:
    """Raise IdentityError when there are too many."""
    if len(seeds.contacts) > MAX_SEEDS:
        raise IdentityError(f"an invitation names at most {MAX_SEEDS} devices")


def _fingerprint(certificate: bytes) -> bytes:
    return hashlib.sha256(certificate).digest()[:_FINGERPRINT_BYTES]
