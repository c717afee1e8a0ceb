"""Protocol between a device and an enroller: one request and one answer over TLS, each one line of JSON."""

import socket
import ssl
from collections.abc import Callable

import msgspec

from sottovoce.errors import IdentityError, NetworkError
from sottovoce.fleet import Identity
from sottovoce.fleet.invitation import Seeds, Token
from sottovoce.fleet.names import enroller_dns_name
from sottovoce.net.listening import split_address

MAX_BYTES = 64 * 2**10
_TIMEOUT_SECONDS = 20.0


class JoinRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="join"):
    """A new device's request to join.

    Attributes:
        secret: the secret from the device's token, in hexadecimal.
        request: the certificate signing request, PEM.
    """

    secret: str
    request: str


class RenewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="renew"):
    """A fleet device's request for its next certificate.

    Attributes:
        request: the certificate signing request together with the current certificate, PEM.
    """

    request: str


EnrolmentRequest = JoinRequest | RenewRequest


class IssuedCertificate(msgspec.Struct, frozen=True, tag="issued"):
    """An answer that contains a new certificate for the device.

    Attributes:
        certificate: the device's certificate, PEM.
        fleet_certificate: the fleet certificate, PEM.
        seeds: contacts through which a new device finds the fleet.
    """

    certificate: str
    fleet_certificate: str
    seeds: Seeds


class Refusal(msgspec.Struct, frozen=True, tag="declined"):
    """An answer that refuses to issue a certificate.

    Attributes:
        reason: explanation of the refusal and its remedy.
    """

    reason: str


Answer = IssuedCertificate | Refusal


def redeem(token: Token, request: bytes) -> IssuedCertificate:
    """Redeem a token with its enroller to join the fleet; this works even if the device's clock is wrong.

    Raises:
        NetworkError: if the enroller does not answer.
        IdentityError: if another server answers at its address, or the enroller declines.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the token pins the enroller's certificate, so any other server is rejected

    def check_certificate(certificate: bytes) -> None:
        if not token.is_enroller(certificate):
            raise IdentityError(
                f"the server at {token.address} is not the enroller that issued this token. Check the token; if "
                "it is correct, either the connection is being intercepted, or the enroller was restarted and "
                "has issued a new token"
            )

    return _send_request(
        token.address, JoinRequest(token.secret.hex(), request.decode("ascii")), context, None, check_certificate
    )


def request_renewal(address: str, request: bytes, identity: Identity) -> bytes:
    """Request this device's next certificate from the fleet's enroller, and return it as PEM.

    Raises:
        NetworkError: if the enroller does not answer.
        IdentityError: if another server answers at its address, or the enroller declines.
    """
    context = ssl.create_default_context(cadata=identity.ca_pem.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    name = enroller_dns_name(identity.fleet)
    issued = _send_request(address, RenewRequest(request.decode("ascii")), context, name, None)
    return issued.certificate.encode("ascii")


def _send_request(
    address: str,
    request: EnrolmentRequest,
    context: ssl.SSLContext,
    name: str | None,
    check_certificate: Callable[[bytes], None] | None,
) -> IssuedCertificate:
    try:
        raw = _exchange(address, msgspec.json.encode(request) + b"\n", context, name, check_certificate)
    except ssl.SSLCertVerificationError as error:
        raise IdentityError(
            f"the server at {address} is not an enroller for this fleet ({error.verify_message}); correct the address"
        ) from error
    except (OSError, OverflowError, UnicodeError) as error:  # the last two are raised for an impossible port or name
        reason = getattr(error, "strerror", None) or error
        raise NetworkError(
            f"no enroller responds at {address} ({reason}); start the enroller, or correct the address"
        ) from error
    try:
        answer: Answer = msgspec.json.decode(raw, type=Answer)
    except msgspec.MsgspecError as error:
        raise NetworkError(f"the enroller at {address} sent an incomplete response; try again") from error
    if isinstance(answer, Refusal):
        raise IdentityError(f"the enroller at {address} refused the request: {answer.reason}")
    return answer


def _exchange(
    address: str,
    request: bytes,
    context: ssl.SSLContext,
    name: str | None,
    check_certificate: Callable[[bytes], None] | None,
) -> bytes:
    with (
        socket.create_connection(split_address(address), _TIMEOUT_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=name) as tls,
    ):
        if check_certificate is not None:
            check_certificate(tls.getpeercert(binary_form=True) or b"")
        tls.sendall(request)
        with tls.makefile("rb") as lines:
            return lines.readline(MAX_BYTES)
