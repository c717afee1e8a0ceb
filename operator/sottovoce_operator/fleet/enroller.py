"""Enroller: a server that admits one invited device, or renews certificates, while an operator runs it.

The enroller has access to the fleet's key, so it is not part of a running fleet: an operator starts it briefly on the
machine that stores the fleet directory. An invitation's secret, and the key for the certificate that the token pins,
exist only in the enroller's memory. A restarted enroller therefore rejects all tokens issued before the restart.
"""

import asyncio
import contextlib
import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Container, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from sottovoce.errors import IdentityError, NetworkError
from sottovoce.fleet import Validity
from sottovoce.fleet.certificates import certificate_builder, common_name, key_usage, read_fleet_name
from sottovoce.fleet.files import replace
from sottovoce.fleet.invitation import Seeds, Token
from sottovoce.fleet.keys import encode_private_key
from sottovoce.fleet.names import enroller_dns_name
from sottovoce.net.enrolment import (
    MAX_BYTES,
    Answer,
    EnrolmentRequest,
    IssuedCertificate,
    JoinRequest,
    Refusal,
    RenewRequest,
)
from sottovoce.net.listening import split_address

from sottovoce_operator.fleet.ca import Fleet
from sottovoce_operator.fleet.request import read_request

INVITATIONS = "invitations"
_REQUEST_SECONDS = 10.0
_MAX_CONNECTIONS = 16
_CERTIFICATE_DAYS = 30
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # keeps running while the machine sleeps


def enroller_certificate(
    authority: x509.Certificate, authority_key: EllipticCurvePrivateKey, key: EllipticCurvePublicKey, validity: Validity
) -> x509.Certificate:
    """Return an enroller's certificate, with a name that no device can have and without a key binding."""
    fleet = read_fleet_name(authority)
    return (
        certificate_builder(common_name(enroller_dns_name(fleet)), authority.subject, key, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(enroller_dns_name(fleet))]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256())
    )


class Enroller:
    """Server for devices that want to join the fleet or to renew their certificates.

    Args:
        fleet: the fleet, opened with its key.
        address: host:port at which the enroller listens, and which devices can reach.
        revoked: returns the devices that must not receive new certificates.
        validity: returns the validity period of a certificate issued now; ninety days by default.
        seeds: first contacts for a new device.

    Attributes:
        joined_node: node id of the admitted device; None until then.
        renewal_count: number of renewed certificates.
    """

    def __init__(
        self,
        fleet: Fleet,
        address: str,
        *,
        revoked: Callable[[], Container[str]],
        validity: Callable[[], Validity | None] = lambda: None,
        seeds: Seeds | None = None,
    ) -> None:
        self.joined_node: str | None = None
        self.renewal_count = 0
        self._fleet = fleet
        self._address = address
        self._revoked = revoked
        self._validity = validity
        self._seeds = seeds or Seeds()
        self._token: Token | None = None
        self._expires_at = float("inf")
        self._connections = 0
        self._joined_event = asyncio.Event()
        key = generate_private_key(SECP256R1())
        certificate = enroller_certificate(
            fleet.certificate, fleet.key, key.public_key(), Validity.from_now(_CERTIFICATE_DAYS)
        )
        self._der = certificate.public_bytes(Encoding.DER)
        self._context = _make_tls_context(encode_private_key(key), certificate.public_bytes(Encoding.PEM))

    def invite(self, seconds: float) -> Token:
        """Return a token that admits one device and expires after the given number of seconds."""
        self._token = Token.create(self._address, self._der)
        self._expires_at = time.clock_gettime(_CLOCK) + seconds
        return self._token

    async def serve(self, on_listening: Callable[[], None] = lambda: None) -> None:
        """Answer requests until the invitation is used or expires; without an invitation, until cancelled.

        Args:
            on_listening: called once the enroller accepts connections.

        Raises:
            NetworkError: if the enroller cannot listen on the address.
        """
        host, port = split_address(self._address)
        try:
            server = await asyncio.start_server(self._serve, host, port, ssl=self._context, limit=MAX_BYTES)
        except OSError as error:
            raise NetworkError(
                f"cannot listen on {self._address} ({error.strerror or error}); specify one of this machine's "
                "addresses that the new device can reach, and a free port"
            ) from error
        async with server:
            on_listening()
            remaining = self._expires_at - time.clock_gettime(_CLOCK)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._joined_event.wait(), None if remaining == float("inf") else remaining)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MAX_CONNECTIONS:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    writer.write(msgspec.json.encode(self._answer(await reader.readline())) + b"\n")
                    await writer.drain()
        except (TimeoutError, ConnectionError, ValueError, ssl.SSLError):
            pass  # the caller has disconnected, is too slow, or sent more than one request
        finally:
            self._connections -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            if self.joined_node is not None:
                self._joined_event.set()

    def _answer(self, line: bytes) -> Answer:
        try:
            request: JoinRequest | RenewRequest = msgspec.json.decode(line, type=EnrolmentRequest)
            if isinstance(request, JoinRequest):
                return self._join(request.secret, request.request)
            return self._renew(request.request)
        except msgspec.MsgspecError:
            return Refusal("malformed request; both sides must run the same version of Sottovoce")
        except IdentityError as error:
            return Refusal(str(error))

    def _join(self, secret: str, request: str) -> Answer:
        if self._token is None or not self._token.admits(secret):
            return Refusal("this enroller did not issue the token; check the token, or request a new one")
        if self.joined_node is not None or time.clock_gettime(_CLOCK) >= self._expires_at:
            return Refusal("the token has expired or has already been used; request a new one")
        signing_request = read_request(request.encode(), "the request")
        self.joined_node = signing_request.node_id  # set before anything is issued: a token admits only one device
        return self._issued_answer(self._fleet.issue(signing_request, self._validity()), self._seeds)

    def _renew(self, request: str) -> Answer:
        signing_request = read_request(request.encode(), "the request")
        certificate = self._fleet.renew(signing_request, self._revoked(), self._validity())
        self.renewal_count += 1
        return self._issued_answer(certificate, Seeds())

    def _issued_answer(self, certificate: bytes, seeds: Seeds) -> IssuedCertificate:
        return IssuedCertificate(certificate.decode("ascii"), self._fleet.authority.anchors.pem.decode("ascii"), seeds)


@contextlib.contextmanager
def record_invitation(fleet: Path, address: str, seconds: float) -> Iterator[None]:
    """Have `sottovoce fleet show` list an open invitation for the duration of the context."""
    directory = fleet / INVITATIONS
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"{os.getpid()}.json"
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    replace(path, json.dumps({"address": address, "expires": expires.isoformat(timespec="seconds")}).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def list_open_invitations(fleet: Path) -> list[dict[str, str]]:
    """Return the unexpired invitations, and delete the files of invitations whose process has ended."""
    invitations = []
    for path in sorted((fleet / INVITATIONS).glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if not _is_process_running(int(path.stem)):
                path.unlink(missing_ok=True)
                continue
            entry = json.loads(path.read_bytes())
            if datetime.fromisoformat(entry["expires"]) > datetime.now(UTC):
                invitations.append({"address": str(entry["address"]), "expires": str(entry["expires"])})
    return invitations


def _is_process_running(process_id: int) -> bool:
    """Return whether a process with this id exists, whichever user owns it."""
    try:
        os.kill(process_id, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _make_tls_context(key: bytes, certificate: bytes) -> ssl.SSLContext:
    """Return the enroller's TLS context; the key is in a temporary file only while Python reads it from there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "enroller.pem"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as writer:
            writer.write(key + certificate)
        context.load_cert_chain(file)
    return context
