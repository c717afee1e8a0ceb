"""Privacy certificate: a signed account of a device's ledger that anyone can verify without access to the device.

The signature covers the exact bytes of the account. It is made with the device's own key, which the fleet certificate
authenticates.
"""

import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import IdentityError, LedgerError
from sottovoce.fleet import Identity, verify_device_certificate
from sottovoce.fleet.framing import frame_fields
from sottovoce.privacy.vault import Ledger
from sottovoce.reports.account import Account, audit_account, build_account

SCHEMA = "sottovoce.privacy-certificate/1"
_DOMAIN = b"sottovoce/privacy-certificate/v1|"


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag=SCHEMA):
    """A signed ledger account, with the credential needed to verify its signature.

    Attributes:
        fleet: name of the device's fleet.
        issued: time of signing by the device's clock, ISO 8601 in UTC.
        account: the account as JSON text, exactly as signed.
        credential: the device's certificate, base64-encoded DER.
        signature: Ed25519 signature, base64-encoded.
    """

    fleet: str
    issued: str
    account: str
    credential: str
    signature: str


def certify(ledger: Ledger, identity: Identity) -> str:
    """Return a certificate for the current state of the ledger, as a JSON document.

    Raises:
        LedgerError: if the ledger belongs to another device.
    """
    if ledger.owner != identity.node_id:
        raise LedgerError(f"this ledger belongs to device {ledger.owner}, not to {identity.node_id}")
    account = msgspec.json.encode(build_account(ledger)).decode()
    issued = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(
        {
            "schema": SCHEMA,
            "fleet": identity.fleet,
            "issued": issued,
            "account": account,
            "credential": b64encode(identity.certificate_der).decode(),
            "signature": b64encode(identity.sign(_bytes_to_sign(identity.fleet, issued, account))).decode(),
        }
    )


def verify(text: bytes, fleet_certificate: bytes, source: Path) -> dict[str, Any]:
    """Return a certificate's content after checking its signature, fleet, charge chain and composition.

    Args:
        text: the JSON document.
        fleet_certificate: certificate of the trusted fleet, PEM.
        source: path of the document, used in error messages.

    Raises:
        IdentityError: if the document was not signed by a device of this fleet.
        LedgerError: if the document is not a certificate, or its account fails a check.
    """
    try:
        certificate = msgspec.json.decode(text, type=Certificate)
        account = msgspec.json.decode(certificate.account, type=Account)
        credential = b64decode(certificate.credential, validate=True)
        signature = b64decode(certificate.signature, validate=True)
    except (msgspec.MsgspecError, ValueError) as error:
        raise LedgerError(f"{source}: not a valid privacy certificate ({error}); export it again") from error
    try:
        # The account outlives the device's certificate, so check who issued that certificate, but not its expiry.
        subject = verify_device_certificate(credential, fleet_certificate, now=None)
        signed = _bytes_to_sign(certificate.fleet, certificate.issued, certificate.account)
        Ed25519PublicKey.from_public_bytes(subject.public_key).verify(signature, signed)
    except IdentityError as error:
        raise IdentityError(f"{source}: {error}") from error
    except InvalidSignature as error:
        raise IdentityError(
            f"{source}: the signature is not from the device in the certificate; export it again"
        ) from error
    if (subject.node_id, subject.fleet) != (account.owner, certificate.fleet):
        raise IdentityError(f"{source}: the account belongs to a different device or fleet than its signer")
    try:
        spending, head = audit_account(account)
    except LedgerError as error:
        raise LedgerError(f"{source}: {error}") from error
    return {
        "fleet": certificate.fleet,
        "owner": account.owner,
        "issued": certificate.issued,
        "unit": account.unit,
        "neighbouring": account.neighbouring,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "spent_epsilon": spending.promised_epsilon,
        "charges": spending.charges,
        "releases": spending.releases,
        "head": head.link.hex(),
    }


def _bytes_to_sign(fleet: str, issued: str, account: str) -> bytes:
    return frame_fields(_DOMAIN, (part.encode() for part in (fleet, issued, account)))
