"""A cell member inside its vault: the secrets of one round, and the checks before each step.

Every request comes from an agent that may be compromised, and, through it, from a leader and members that may be
dishonest. The secrets belong to one offer, which is valid for one roster, one masked vector and one set of survivors,
and they exist only in memory. A vault that restarts loses its secrets and therefore refuses all further steps of the
round.
"""

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import randbelow
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.secure_sum.masks import check_keys, own_mask, pack_values, pair_mask
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods, neighbourhoods
from sottovoce.privacy.secure_sum.opening import commitment
from sottovoce.privacy.secure_sum.share_tree import (
    ShareTree,
    compute_root,
    mask_key_leaf,
    path_bytes,
    seed_leaf,
    share_leaves,
)
from sottovoce.privacy.secure_sum.shares import Shares, open_shares, seal_shares, split_secret
from sottovoce.privacy.secure_sum.statements import (
    Masked,
    Offer,
    Ready,
    Roster,
    Statement,
    SurvivorConfirmation,
    decode_body,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.secure_sum.steps import (
    Agree,
    Join,
    Mask,
    Reveal,
    Revealed,
    RevealedShare,
    Sealed,
    Survive,
    Unfit,
    Vector,
)

B = TypeVar("B", Ready, SurvivorConfirmation)
SignatureVerifier = Callable[[Statement], None]
"""Function that raises MessageRefused if the device named in a statement did not sign it for this task, or if that
device is not in the fleet at present because it is unknown, expired or revoked."""


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys that a member uses for masking and sharing; deleted once its contribution is masked."""

    seed: bytes
    mask_key: X25519PrivateKey
    share_key: X25519PrivateKey


@dataclass(frozen=True, slots=True)
class _ReceivedShares:
    """The shares that a member dealt to this device, their path to the root that the member signed, and their rank."""

    shares: Shares
    path: bytes
    rank: int

    def matches(self, root: bytes, holders: int) -> bool:
        """Return whether the shares match the dealer's commitment, given the number of members that hold shares."""
        seed, mask_key = seed_leaf(self.rank, self.shares.seed), mask_key_leaf(self.rank, self.shares.mask_key)
        return len(self.path) == path_bytes(holders) and compute_root(self.rank, seed, mask_key, self.path) == root

    def seed_share(self, dealer: int) -> RevealedShare:
        """Return the seed share in the form in which it is revealed."""
        return RevealedShare(dealer, self.shares.seed, mask_key_leaf(self.rank, self.shares.mask_key), self.path)

    def mask_key_share(self, dealer: int) -> RevealedShare:
        """Return the mask-key share in the form in which it is revealed."""
        return RevealedShare(dealer, self.shares.mask_key, seed_leaf(self.rank, self.shares.seed), self.path)


@dataclass(slots=True)
class _Secrets:
    """The secrets of one offer, and the progress of its round."""

    offer: Offer
    point: bytes
    keys: _Keys | None
    roster: Roster | None = None
    index: int = -1
    root: bytes = b""
    received_shares: dict[int, _ReceivedShares] = field(default_factory=dict)
    members: tuple[int, ...] = ()
    h: bytes = b""
    is_masked: bool = False
    stand: SurvivorConfirmation | None = None


class CellMember:
    """The cell member that takes part in secure sums on one device's behalf.

    Args:
        owner: the device's node id.
        cell: the cell's size limits.
        verify_signature: checks the signer of a statement.
        noise: the source of randomness.
    """

    def __init__(self, owner: str, cell: Cell, verify_signature: SignatureVerifier, noise: NoiseSource) -> None:
        self._owner, self._cell, self._verify_signature, self._noise = owner, cell, verify_signature, noise
        self._secrets: _Secrets | None = None

    @property
    def point(self) -> bytes:
        """The point of the current offer."""
        return self._current_secrets().point

    def begin(self, slot: int, point: bytes) -> Offer:
        """Make a new offer for a sum at this point, and delete the secrets of any earlier offer."""
        seed, mask_key, share_key = self._random_seed(), self._key(), self._key()
        publics = (mask_key.public_key().public_bytes_raw(), share_key.public_key().public_bytes_raw())
        offer = Offer(slot, sha256(point).digest(), *publics, commitment(seed))
        self._secrets = _Secrets(offer, point, _Keys(seed, mask_key, share_key))
        return offer

    def end(self, slot: int) -> None:
        """Delete the secrets of a finished round if they belong to this sum or an earlier one."""
        if self._secrets is not None and self._secrets.offer.slot <= slot:
            self._secrets = None

    def join(self, request: Join) -> Sealed:
        """Deal shares of the secrets to a roster that contains this device's offer; only one such roster is accepted.

        Raises:
            MessageRefused: if the roster is not valid; nothing changed.
        """
        secrets = self._current_secrets()
        if secrets.roster is not None:
            raise _refusal("this device's offer is already in a different roster")
        if not self._cell.least <= len(request.roster) <= self._cell.most:
            raise _refusal(f"a roster of {len(request.roster)} devices does not have a size that this task allows")
        roster = roster_from_offers(request.roster)
        if self._owner not in roster.owners:
            raise _refusal("the roster does not include this device")
        index = roster.owners.index(self._owner)
        if roster.offers[index] != secrets.offer:
            raise _refusal("this device's offer in the roster is not its latest offer")
        for statement, offer in zip(roster.statements, roster.offers, strict=True):
            self._verify_signature(statement)
            check_keys(offer.mask_key, offer.share_key)
        graph, keys = self._graph(roster), self._keys(secrets)
        holders = graph.holders(index)
        seeds = split_secret(keys.seed, len(holders), graph.threshold, randbelow)
        mask_keys = split_secret(keys.mask_key.private_bytes_raw(), len(holders), graph.threshold, randbelow)
        dealt = [Shares(*pair) for pair in zip(seeds, mask_keys, strict=True)]
        bundle = tuple(
            b""
            if holder == index
            else seal_shares(keys.share_key, roster.offers[holder].share_key, roster.digest, index, holder, dealt[rank])
            for rank, holder in enumerate(holders)
        )
        leaves = share_leaves(dealt)
        tree, own_rank = ShareTree(leaves, bundle), graph.rank(index, index)
        if own_rank is not None:
            secrets.received_shares[index] = _ReceivedShares(dealt[own_rank], tree.path(own_rank), own_rank)
        secrets.roster, secrets.index, secrets.root = roster, index, tree.root
        return Sealed(bundle, leaves)

    def agree(self, request: Agree) -> Ready | Unfit:
        """Agree on the members that take part. Can be called only once per offer, before anything is charged.

        Returns:
            Ready, or Unfit with the members whose shares do not match their signed roots; if Unfit, nothing changed.

        Raises:
            MessageRefused: if some members dealt no shares, or too few members are left; nothing changed.
        """
        secrets, roster = self._secrets_and_roster()
        if secrets.h:
            raise _refusal("this device has already agreed on the members of this round")
        members = request.members
        if list(members) != sorted(set(members)) or not members or members[-1] >= len(roster):
            raise _refusal("the round's members are not valid positions in its roster")
        if secrets.index not in members or len(members) < self._cell.opening_threshold(len(roster)):
            raise _refusal("the round has too few members, or does not include this device")
        graph = self._graph(roster)
        if not graph.joins(members):
            raise _refusal("too few of the round's members are neighbours")
        dealers = graph.present_holders(secrets.index, members)
        if len(members) != len(request.roots) or not len(dealers) == len(request.sealed) == len(request.paths):
            raise _refusal("some members of the round have not dealt their shares")
        roots = dict(zip(members, request.roots, strict=True))
        if roots[secrets.index] != secrets.root:
            raise _refusal("the shares sent to the other members are not those that this device dealt")
        received, unfit = dict(secrets.received_shares), []
        for dealer, raw, path in zip(dealers, request.sealed, request.paths, strict=True):
            if dealer != secrets.index:
                unsealed = self._unseal(secrets, roster, dealer, raw, path)
                if unsealed is None or not unsealed.matches(roots[dealer], graph.holder_count):
                    unfit.append(dealer)
                else:
                    received[dealer] = unsealed
        if unfit:
            return Unfit(tuple(unfit))
        secrets.received_shares, secrets.members = received, members
        secrets.h = round_digest(graph, members, request.roots)
        return Ready(roster.digest, secrets.h)

    def _graph(self, roster: Roster) -> Neighbourhoods:
        """Return the roster's neighbourhoods, which this vault derives itself."""
        return neighbourhoods(self._cell, roster.digest, len(roster))

    def _unseal(
        self, secrets: _Secrets, roster: Roster, member: int, raw: bytes, path: bytes
    ) -> _ReceivedShares | None:
        """Return the shares that a member sealed for this device, or None if they are invalid."""
        private_key, public_key = self._keys(secrets).share_key, roster.offers[member].share_key
        rank = self._graph(roster).rank(member, secrets.index)
        try:
            shares = open_shares(private_key, public_key, roster.digest, member, secrets.index, raw)
        except MessageRefused:
            return None
        return None if rank is None else _ReceivedShares(shares, path, rank)

    def check_ready(self, request: Mask) -> tuple[int, bytes]:
        """Check that enough members are ready for the round that this device agreed on, so the round may be charged.

        Returns:
            The roster size, and h.

        Raises:
            MessageRefused: if too few members are ready, or this device has already masked its contribution; nothing
                changed.
        """
        secrets, roster = self._secrets_and_roster()
        if not secrets.h or secrets.is_masked:
            raise _refusal("a vector may be masked only once, after this device has agreed on the members")
        ready = Ready(roster.digest, secrets.h)
        self._check_signed(request.readies, Ready, ready, {roster.owners[index] for index in secrets.members})
        return len(roster), secrets.h

    def mask(self, part: NDArray[np.int64], width: int) -> Vector:
        """Mask this device's contribution to the sum. Can be called only once per offer.

        Args:
            part: the clipped contribution, including its share of the noise, already charged.
            width: bytes per value.
        """
        secrets, roster = self._secrets_and_roster()
        if not secrets.h or secrets.is_masked:
            raise _refusal("a vector may be masked only once, after this device has agreed on the members")
        keys = self._keys(secrets)
        secrets.is_masked, secrets.keys = True, None
        vector = part.astype(np.uint64) + own_mask(keys.seed, secrets.h, len(part), width)
        for member in self._graph(roster).present_holders(secrets.index, secrets.members):
            if member != secrets.index:
                pair, key = (secrets.index, member), roster.offers[member].mask_key
                mask = pair_mask(keys.mask_key, key, secrets.h, pair, len(part), width)
                vector = vector + mask if secrets.index < member else vector - mask
        raw = pack_values(vector, width)
        return Vector(raw, Masked(secrets.h, sha256(raw).digest()))

    def survive(self, request: Survive) -> SurvivorConfirmation:
        """Confirm a set of survivors and their vectors; only one set, with one digest, is ever confirmed.

        Raises:
            MessageRefused: if this device may not confirm the set, or has confirmed another one.
        """
        secrets, roster = self._secrets_and_roster()
        survivors = request.survivors
        if not secrets.is_masked or list(survivors) != sorted(set(survivors)) or not {*survivors} <= {*secrets.members}:
            raise _refusal("this device has not masked its vector yet, or some survivors are not members of this round")
        if secrets.index not in survivors or len(survivors) < self._cell.opening_threshold(len(roster)):
            raise _refusal("there are too few survivors, or they do not include this device")
        if not self._graph(roster).joins(survivors):
            raise _refusal("too few of the survivors are neighbours, so a part of them would not be hidden in the sum")
        stand = SurvivorConfirmation(secrets.h, survivors, request.vectors)
        if secrets.stand not in (None, stand):
            raise _refusal("this device has confirmed different survivors or vectors")
        secrets.stand = stand
        return stand

    def reveal(self, request: Reveal) -> Revealed:
        """Reveal the shares that open the sum over the survivors and no other sum.

        Raises:
            MessageRefused: if too few members have confirmed the survivors that this device has confirmed.
        """
        secrets, roster = self._secrets_and_roster()
        stand = secrets.stand
        if stand is None:
            raise _refusal("this device has not confirmed any survivors")
        self._check_signed(
            request.stands, SurvivorConfirmation, stand, {roster.owners[index] for index in stand.survivors}
        )
        survivors = {*stand.survivors}
        received = sorted(secrets.received_shares.items())
        return Revealed(
            tuple(shares.seed_share(dealer) for dealer, shares in received if dealer in survivors),
            tuple(shares.mask_key_share(dealer) for dealer, shares in received if dealer not in survivors),
        )

    def _check_signed(self, statements: Sequence[Statement], kind: type[B], body: B, allowed: Collection[str]) -> None:
        """Check that at least the threshold number of allowed members have signed this body.

        Raises:
            MessageRefused: if too few members have signed, if one signed twice or signed a different body, or if one is
                not allowed to sign.
        """
        _, roster = self._secrets_and_roster()
        owners: list[str] = [statement.owner for statement in statements]
        if len(set(owners)) != len(owners) or not {*owners} <= {*allowed}:
            raise _refusal("a member signed twice, or is not allowed to sign")
        credentials = {statement.owner: statement.credential for statement in roster.statements}
        signers = 0
        for statement in statements:
            if decode_body(statement, kind) != body:
                raise _refusal("a member signed a different statement")
            credential = credentials[statement.owner]
            with contextlib.suppress(MessageRefused):  # a member that has been revoked does not count
                self._verify_signature(Statement(statement.owner, statement.body, credential, statement.signature))
                signers += 1
        if signers < self._cell.opening_threshold(len(roster)):
            raise _refusal("too few members have signed")

    @staticmethod
    def _keys(secrets: _Secrets) -> _Keys:
        if secrets.keys is None:
            raise _refusal("this device has already masked its vector in this round")
        return secrets.keys

    def _current_secrets(self) -> _Secrets:
        if self._secrets is None:
            raise _refusal("this device has not made an offer since it started")
        return self._secrets

    def _secrets_and_roster(self) -> tuple[_Secrets, Roster]:
        secrets = self._current_secrets()
        if secrets.roster is None:
            raise _refusal("this device is not in any roster")
        return secrets, secrets.roster

    def _random_seed(self) -> bytes:
        return self._noise.random_words(4).tobytes()

    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self._random_seed())


def _refusal(reason: str) -> MessageRefused:
    return MessageRefused("cell", reason)
