"""Proofs that a member has cheated, which every device in the fleet can verify."""

from collections.abc import Callable
from hashlib import sha256
from typing import Annotated

from msgspec import Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods, neighbourhoods
from sottovoce.privacy.secure_sum.opening import mask_key_matches, seed_matches
from sottovoce.privacy.secure_sum.share_tree import compute_root, mask_key_leaf, path_bytes, seed_leaf
from sottovoce.privacy.secure_sum.shares import Combiner
from sottovoce.privacy.secure_sum.statements import (
    MAX_MEMBERS,
    Body,
    Deal,
    Digest,
    Lead,
    Masked,
    Offer,
    Place,
    Places,
    Ready,
    RevealCommitment,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    decode_any_body,
    decode_body,
    round_digest,
)
from sottovoce.privacy.secure_sum.steps import Revealed, RevealedShare, Roots

SignatureVerifier = Callable[[Statement], None]


class Equivocation(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="equivocation"):
    """Proof that a device signed two conflicting statements of a kind that it may sign only once per round."""

    first: Statement
    second: Statement


class InvalidShares(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="worthless-shares"):
    """Proof that the shares to which a member committed do not yield the secret that the member offered.

    Attributes:
        offer: the member's offer.
        deal: the member's deal, for a roster with this offer.
        of_mask_key: whether the secret is the mask key; otherwise it is the seed.
        recipients: positions of the recipients among the holders of the member's shares; in a complete graph, their
            roster indices. Their number equals the threshold.
        shares: the recipients' shares.
    """

    offer: Statement
    deal: Statement
    of_mask_key: bool
    recipients: Places
    shares: Annotated[tuple[RevealedShare, ...], Meta(max_length=MAX_MEMBERS)]


class FalseShare(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="false-share"):
    """Proof that a member revealed a share to which the share's dealer had not committed.

    Attributes:
        shown: the member's statement.
        revealed: all shares that the member revealed.
        roster: roster digest.
        size: number of members in the roster.
        members: roster indices of the round's members.
        roots: the members' roots.
    """

    shown: Statement
    revealed: Revealed
    roster: Digest
    size: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
    members: Places
    roots: Roots


Proof = Equivocation | InvalidShares | FalseShare


def find_false_share(
    graph: Neighbourhoods, recipient: Place, revealed: Revealed, members: Places, roots: Roots
) -> int | None:
    """Return the dealer of the first share that does not match its hash-tree root; None if all shares match.

    Args:
        graph: the roster's neighbourhoods.
        recipient: roster index of the member that revealed the shares.
        revealed: the shares.
        members: roster indices of the round's members.
        roots: the members' roots.
    """
    root_by_dealer = dict(zip(members, roots, strict=True))
    for share, of_mask_key in _all_shares(revealed):
        rank = graph.rank(share.dealer, recipient) if share.dealer < graph.size else None
        if rank is None or expected_root(share, rank, of_mask_key=of_mask_key) != root_by_dealer.get(share.dealer):
            return share.dealer
    return None


def expected_root(share: RevealedShare, rank: Place, *, of_mask_key: bool) -> bytes:
    """Return the hash-tree root that a share's dealer must have signed."""
    leaf = mask_key_leaf(rank, share.share) if of_mask_key else seed_leaf(rank, share.share)
    seed, mask_key = (share.other, leaf) if of_mask_key else (leaf, share.other)
    return compute_root(rank, seed, mask_key, share.path)


def revealed_digest(revealed: Revealed) -> bytes:
    """Return the digest of revealed shares, which the revealing member signs."""
    return sha256(msgpack.encode(revealed)).digest()


def judge_proof(proof: Proof, cell: Cell, verify_signature: SignatureVerifier) -> tuple[str, str]:
    """Return the node id of the device that cheated, and a description of how it cheated.

    Args:
        proof: a proof from an untrusted source.
        cell: the cell's size limits.
        verify_signature: raises MessageRefused if a statement was not signed by its owner or the owner is not in this
            fleet.

    Raises:
        MessageRefused: if the proof is not valid.
    """
    match proof:
        case Equivocation():
            return _judge_equivocation(proof, verify_signature)
        case InvalidShares():
            return _judge_invalid_shares(proof, cell, verify_signature)
        case FalseShare():
            return _judge_false_share(proof, cell, verify_signature)


def _judge_equivocation(proof: Equivocation, verify_signature: SignatureVerifier) -> tuple[str, str]:
    first, second = proof.first, proof.second
    bodies = decode_any_body(first), decode_any_body(second)
    if first.owner != second.owner or bodies[0] == bodies[1] or _statement_key(bodies[0]) != _statement_key(bodies[1]):
        raise _invalid_proof()
    verify_signature(first)
    verify_signature(second)
    return first.owner, f"signed two `{type(bodies[0]).__struct_config__.tag}` statements in one round"


def _statement_key(body: Body) -> tuple[type, bytes]:
    """Return the statement's key; a device may sign only one statement per key."""
    match body:
        case Deal(roster=digest) | Lead(roster=digest) | Ready(roster=digest):
            return type(body), digest
        case Masked(round=digest) | SurvivorProposal(round=digest) | SurvivorConfirmation(round=digest):
            return type(body), digest
        case _:
            raise _invalid_proof()


def _judge_invalid_shares(proof: InvalidShares, cell: Cell, verify_signature: SignatureVerifier) -> tuple[str, str]:
    offer, deal = decode_body(proof.offer, Offer), decode_body(proof.deal, Deal)
    recipients, graph = proof.recipients, neighbourhoods(cell, deal.roster, deal.size)
    is_consistent = (
        proof.offer.owner == proof.deal.owner
        and deal.offer == sha256(proof.offer.body).digest()
        and len(recipients) == len(proof.shares) == graph.threshold
        and list(recipients) == sorted(set(recipients))
        and recipients[-1] < graph.holder_count
        and all(
            len(share.path) == path_bytes(graph.holder_count)
            and expected_root(share, recipient, of_mask_key=proof.of_mask_key) == deal.root
            for recipient, share in zip(recipients, proof.shares, strict=True)
        )
    )
    if not is_consistent:
        raise _invalid_proof()
    shares = {recipient: share.share for recipient, share in zip(recipients, proof.shares, strict=True)}
    secret = Combiner(recipients).secret(shares)
    if mask_key_matches(secret, offer) if proof.of_mask_key else seed_matches(secret, offer):
        raise _invalid_proof()
    verify_signature(proof.offer)
    verify_signature(proof.deal)
    return proof.deal.owner, "dealt shares of a secret other than the one it offered"


def _judge_false_share(proof: FalseShare, cell: Cell, verify_signature: SignatureVerifier) -> tuple[str, str]:
    shown, members = decode_body(proof.shown, RevealCommitment), proof.members
    graph = neighbourhoods(cell, proof.roster, proof.size)
    is_consistent = (
        len(members) == len(proof.roots)
        and shown.place < proof.size
        and shown.revealed == revealed_digest(proof.revealed)
        and shown.round == round_digest(graph, members, proof.roots)
    )
    if not is_consistent or find_false_share(graph, shown.place, proof.revealed, members, proof.roots) is None:
        raise _invalid_proof()
    verify_signature(proof.shown)
    return proof.shown.owner, "revealed a share that no dealer had sent it"


def _all_shares(revealed: Revealed) -> list[tuple[RevealedShare, bool]]:
    return [*((share, False) for share in revealed.seeds), *((share, True) for share in revealed.mask_keys)]


def _invalid_proof() -> MessageRefused:
    return MessageRefused("cell", "a proof that a member is dishonest is not valid")
