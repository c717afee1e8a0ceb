"""Key generation on a new device, and the files of its identity directory."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import IdentityError
from sottovoce.fleet.files import make_private_directory, read_private, write_new
from sottovoce.fleet.identity import (
    DEVICE_KEY,
    FLEET_CERTIFICATE,
    ISSUER_CERTIFICATE,
    TLS_CERTIFICATE,
    TLS_KEY,
)
from sottovoce.fleet.keys import decode_device_key, decode_tls_key, encode_private_key, node_id
from sottovoce.fleet.request import make_request


@dataclass(frozen=True, slots=True, eq=False)
class DeviceKeys:
    """The private keys of one device.

    Attributes:
        device: the identity key, which never changes.
        tls: the TLS key, which the device's certificates certify.
    """

    device: Ed25519PrivateKey = field(repr=False)
    tls: EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Generate new keys."""
        return cls(Ed25519PrivateKey.generate(), generate_private_key(SECP256R1()))

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read both keys from an identity directory.

        Raises:
            IdentityError: if a key is missing, malformed, or accessible to other users.
        """
        device, tls = directory / DEVICE_KEY, directory / TLS_KEY
        return cls(decode_device_key(read_private(device), device), decode_tls_key(read_private(tls), tls))

    @classmethod
    def decode(cls, device: bytes, tls: bytes, source: object) -> Self:
        """Decode both keys from the contents of two PEM files, called `source` in error messages.

        Raises:
            IdentityError: if a key is malformed.
        """
        return cls(decode_device_key(device, source), decode_tls_key(tls, source))

    @property
    def node_id(self) -> str:
        """The node id of the device that owns these keys."""
        return node_id(self.device.public_key())

    def to_pem(self) -> tuple[bytes, bytes]:
        """Return both keys as unencrypted PEM, the identity key first."""
        return encode_private_key(self.device), encode_private_key(self.tls)

    def request(self, *, fleet: str | None = None, current: bytes = b"") -> bytes:
        """Return a certificate request; see sottovoce.fleet.request.make_request."""
        return make_request(self.device, self.tls, fleet=fleet, current=current)


def write_keys(directory: Path, keys: DeviceKeys) -> None:
    """Write the keys of a device that has no certificate yet.

    Raises:
        IdentityError: if the directory contains an identity already, is accessible to other users, or cannot be
            written.
    """
    device, tls = keys.to_pem()
    make_private_directory(directory)
    write_new({directory / DEVICE_KEY: device, directory / TLS_KEY: tls})


def write_identity(directory: Path, keys: DeviceKeys, certificate: bytes, *, fleet_certificate: bytes) -> None:
    """Write the identity of a device whose certificate the fleet has issued.

    Args:
        directory: directory to write to, created if missing.
        keys: the device's keys.
        certificate: the device's certificate, PEM.
        fleet_certificate: the fleet's certificate, PEM.

    Raises:
        IdentityError: if the directory contains an identity already, is accessible to other users, or cannot be
            written.
    """
    device, tls = keys.to_pem()
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
    """Add an external CA's certificates to an identity directory that contains only the device's keys.

    Args:
        directory: the identity directory with the keys.
        chain: PEM with the device's certificate first; the other certificates are discarded.
        issuer: the certificate of the CA that signed the device's certificate, PEM.

    Raises:
        IdentityError: if the directory already contains a certificate or cannot be written, or `chain` is not PEM.
    """
    write_new({directory / ISSUER_CERTIFICATE: issuer, directory / TLS_CERTIFICATE: first_certificate(chain)})


def first_certificate(chain: bytes) -> bytes:
    """Return the first certificate, which is the device's, from an external CA's chain; both are PEM.

    Raises:
        IdentityError: if the chain contains no certificate.
    """
    _, header, rest = chain.partition(b"-----BEGIN CERTIFICATE-----")
    body, footer, _ = rest.partition(b"-----END CERTIFICATE-----")
    if not (header and footer):
        raise IdentityError("the file from the CA is not a PEM certificate; pass the certificate issued by the CA")
    return header + body + footer + b"\n"
