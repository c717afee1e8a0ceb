"""Set-up of a hardened Mosquitto broker for a fleet: its configuration, access control list and certificate."""

import ipaddress
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from sottovoce.errors import UsageError
from sottovoce.fleet import Validity
from sottovoce.fleet.files import make_private_directory, write_new
from sottovoce.fleet.keys import encode_private_key

from sottovoce_operator.fleet.ca import Fleet

_TEMPLATE_DIRECTORY = "/etc/mosquitto/sottovoce"
_TEMPLATE_LISTENER = "listener 8883\n"
_DAYS = 825


def write_broker(
    fleet: Fleet,
    directory: Path,
    hosts: Sequence[str],
    *,
    port: int = 8883,
    listen: str | None = None,
    user: str | None = None,
    home: Path | None = None,
) -> Path:
    """Write all files for this fleet's Mosquitto broker to a private directory.

    Args:
        fleet: the fleet, opened with its key, which signs the broker's certificate.
        directory: directory to write to, created if missing; existing files are never overwritten.
        hosts: host names and addresses through which devices reach the broker.
        port: port that the broker listens on.
        listen: the only address that the broker listens on; defaults to all addresses.
        user: user that the broker switches to when root starts it; defaults to Mosquitto's own user.
        home: path of the directory on the broker's host; defaults to the path that is written to.

    Returns:
        The path of the broker's configuration file.

    Raises:
        UsageError: if `hosts` is empty, or contains something that is not a host name or an address.
        IdentityError: if a file already exists or cannot be written.
    """
    key = generate_private_key(SECP256R1())
    certificate = _certificate(fleet, hosts, key)
    make_private_directory(directory)
    target = directory.absolute()
    listener = f"listener {port}" + (f" {listen}" if listen else "") + "\n"
    templates = files(__name__)
    configuration = (templates / "mosquitto.conf").read_text("utf-8").replace(_TEMPLATE_DIRECTORY, str(home or target))
    if user is not None:
        configuration += f"\nuser {user}\n"
    write_new(
        {
            target / "ca.pem": fleet.certificate.public_bytes(Encoding.PEM),
            target / "broker.pem": certificate.public_bytes(Encoding.PEM),
            target / "broker.key": encode_private_key(key),
            target / "acl": (templates / "acl").read_bytes(),
            target / "mosquitto.conf": configuration.replace(_TEMPLATE_LISTENER, listener).encode(),
        }
    )
    return target / "mosquitto.conf"


def _certificate(fleet: Fleet, hosts: Sequence[str], key: EllipticCurvePrivateKey) -> x509.Certificate:
    """Return a server certificate, which contains no device key binding and therefore does not identify a device."""
    if not hosts:
        raise UsageError("no host was specified; specify at least one host name or address to which devices connect")
    validity = Validity.from_now(_DAYS)
    try:
        names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    except ValueError as error:
        raise UsageError(f"{', '.join(hosts)}: these must all be host names or addresses ({error})") from error
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")]))
        .issuer_name(fleet.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.not_before)
        .not_valid_after(min(validity.not_after, fleet.certificate.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(fleet.key.public_key()), critical=False)
        .sign(fleet.key, SHA256())
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
