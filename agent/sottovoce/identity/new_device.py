"""Files that a new device makes for itself: its two keys, and the directory of its identity."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import IdentityError
from sottovoce.identity.files import make_private_directory, read_private, write_new
from sottovoce.identity.identity import (
    DEVICE_KEY,
    FLEET_CERTIFICATE,
    ISSUER_CERTIFICATE,
    TLS_CERTIFICATE,
    TLS_KEY,
)
from sottovoce.identity.keys import decode_device_key, decode_tls_key, encode_private_key, node_id
from sottovoce.identity.request import make_request


@dataclass(frozen=True, slots=True, eq=False)
class DeviceKeys:
    """The private keys of one device.

    Attributes:
        device: the identity key, for life.
        tls: the key of its certificates.
    """

    device: Ed25519PrivateKey = field(repr=False)
    tls: EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Draw new keys."""
        return cls(Ed25519PrivateKey.generate(), generate_private_key(SECP256R1()))

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Return keys of an identity directory.

        Raises:
            IdentityError: if one is missing, malformed or open to other users.
        """
        device, tls = directory / DEVICE_KEY, directory / TLS_KEY
        return cls(decode_device_key(read_private(device), device), decode_tls_key(read_private(tls), tls))

    @classmethod
    def decode(cls, device: bytes, tls: bytes, source: object) -> Self:
        """Return keys of two PEM files."""
        return cls(decode_device_key(device, source), decode_tls_key(tls, source))

    @property
    def node_id(self) -> str:
        """The id of the device that has these keys."""
        return node_id(self.device.public_key())

    def encoded(self) -> tuple[bytes, bytes]:
        """Return both keys in PEM, the identity key first."""
        return encode_private_key(self.device), encode_private_key(self.tls)

    def request(self, *, fleet: str | None = None, present: bytes = b"") -> bytes:
        """Return a request for a certificate; see sottovoce.identity.request.make_request."""
        return make_request(self.device, self.tls, fleet=fleet, present=present)


def write_keys(directory: Path, keys: DeviceKeys) -> None:
    """Write the keys of a device that has no certificate yet.

    Raises:
        IdentityError: if the directory holds an identity, is open to other users or cannot be written.
    """
    device, tls = keys.encoded()
    make_private_directory(directory)
    write_new({directory / DEVICE_KEY: device, directory / TLS_KEY: tls})


def write_identity(directory: Path, keys: DeviceKeys, certificate: bytes, *, fleet_certificate: bytes) -> None:
    """Write the identity of a device of a fleet with a certificate of its own.

    Args:
        directory: made if it is not there.
        keys: the device's.
        certificate: the device's, PEM.
        fleet_certificate: the fleet's, PEM.

    Raises:
        IdentityError: if the directory holds an identity, is open to other users or cannot be written.
    """
    device, tls = keys.encoded()
    make_private_directory(directory)
    write_new(
        {
            directory / DEVICE_KEY: device,
            directory / TLS_KEY: tls,
            directory / FLEET_CERTIFICATE: fleet_certificate,
            directory / TLS_CERTIFICATE: certificate,
        }
    )


def write_external_certificate(directory: Path, chain: bytes, issuer: bytes) -> None:
    """Complete the identity whose keys are there with the certificates of an external CA.

    Args:
        directory: holds the keys.
        chain: PEM, the device's certificate first; the rest is discarded.
        issuer: PEM, the CA that signed it.

    Raises:
        IdentityError: if there is one already, or it cannot be written.
    """
    write_new({directory / ISSUER_CERTIFICATE: issuer, directory / TLS_CERTIFICATE: first_certificate(chain)})


def first_certificate(chain: bytes) -> bytes:
    """Return the device's own certificate from an external CA's chain, both PEM.

    Raises:
        IdentityError: if there is none.
    """
    _, begin, rest = chain.partition(b"-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition(b"-----END CERTIFICATE-----")
    if not (begin and end):
        raise IdentityError("what the CA issued is not a PEM certificate: give the file that it wrote")
    return begin + body + end + b"\n"
