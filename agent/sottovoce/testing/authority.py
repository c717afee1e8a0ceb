"""A fleet's certificate authority in memory, for devices that exist as long as a check."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.fleet import Identity, Validity, load
from sottovoce.fleet.binding import make_binding
from sottovoce.fleet.certificates import device_certificate, fleet_certificate
from sottovoce.fleet.new_device import DeviceKeys, write_identity

_DAYS = 1.0


class TemporaryFleet:
    """A fleet whose key is stored nowhere.

    Args:
        name: the fleet's name.
    """

    def __init__(self, name: str) -> None:
        self._key = generate_private_key(SECP256R1())
        self._certificate = fleet_certificate(name, self._key, Validity.from_now(_DAYS))

    def enrol(self, directory: Path) -> Identity:
        """Write a new device's identity to a directory, and return it."""
        keys, pem = DeviceKeys.generate(), Encoding.PEM
        tls_key = keys.tls.public_key()
        binding = make_binding(keys.device, tls_key)
        certificate = device_certificate(self._certificate, self._key, tls_key, binding, Validity.from_now(_DAYS))
        fleet = self._certificate.public_bytes(pem)
        write_identity(directory, keys, certificate.public_bytes(pem), fleet_certificate=fleet)
        return load(directory)
