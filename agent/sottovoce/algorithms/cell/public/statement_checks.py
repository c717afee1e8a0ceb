"""Verify the statements signed by roster members, and the round proposed by the leader."""

from dataclasses import replace
from hashlib import sha256

from sottovoce.algorithms.cell.public.messages import Agreed
from sottovoce.errors import MessageRefused
from sottovoce.learners.published_records import Provenance
from sottovoce.secure_sum.statements import B, Deal, Lead, Roster, Statement, decode_body, round_digest


def verify_body(provenance: Provenance, roster: Roster, owner: str, statement: Statement, kind: type[B]) -> B:
    """Verify a member's statement with the certificate from the roster, and return the statement's body.

    Raises:
        MessageRefused: if the member did not sign the statement.
    """
    if statement.owner != owner or owner not in roster.owners:
        raise MessageRefused("cell", "a device sent another device's statement")
    credential = roster.statements[roster.owners.index(owner)].credential
    provenance.verify(replace(statement, credential=credential))
    return decode_body(statement, kind)


def with_credential(roster: Roster, statement: Statement) -> Statement:
    """Return a member's statement with its certificate attached, for devices without the roster."""
    return replace(statement, credential=roster.statements[roster.owners.index(statement.owner)].credential)


def verify_roots(provenance: Provenance, roster: Roster, agreement: Agreed, lead: Lead) -> tuple[bytes, ...] | None:
    """Return the members' commitments, or None if one is invalid or the leader's signed digest does not match them.

    Every member signs its own commitment, so an invalid one means that the leader lied.
    """
    roots = []
    try:
        for member, deal in zip(agreement.members, agreement.deals, strict=True):
            body = verify_body(provenance, roster, roster.owners[member], deal, Deal)
            offer = sha256(roster.statements[member].body).digest()
            if body != Deal(roster.digest, len(roster), offer, body.root):
                return None
            roots.append(body.root)
    except (MessageRefused, IndexError, ValueError):
        return None
    return tuple(roots) if lead.round == round_digest(roster.digest, agreement.members, roots) else None
