"""A member of a cell, as its own vault holds it: the secrets of one round, and what is checked before each step.

Whatever is said here comes from an agent that may be taken over, and through it from a leader and members who may lie.
The secrets are for one offer, which is good for one roster, one masked vector and one set of survivors; they are in
memory alone. A vault that starts anew has none, and so is silent for the rest of the round.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from sottovoce.cell import Cell
from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.masks import check_keys, own_mask, packed, pair_mask
from sottovoce.secure_sum.opening import commitment
from sottovoce.secure_sum.shares import Shares, opened, sealed, shared
from sottovoce.secure_sum.statements import (
    Masked,
    Offer,
    Roster,
    Stand,
    Statement,
    body_of,
    bundle_digest,
    roster_of,
    round_digest,
)
from sottovoce.secure_sum.steps import Join, Mask, Reveal, Revealed, Sealed, Survive, Vector
from sottovoce.vault.noise import NoiseSource

Belongs = Callable[[Statement], None]
"""Raises MessageRefused where a statement was not signed, for this task, by the device of this fleet that it names."""


@dataclass(slots=True)
class _Secrets:
    """Of one offer."""

    offer: Offer
    point: bytes
    seed: bytes
    mask_key: X25519PrivateKey
    share_key: X25519PrivateKey
    roster: Roster | None = None
    place: int = -1
    own: Shares | None = None
    bundle: bytes = b""
    held: dict[int, Shares] = field(default_factory=dict)
    members: tuple[int, ...] = ()
    h: bytes = b""
    masked: bool = False
    stand: Stand | None = None


class Member:
    """One device's.

    Args:
        owner: its node id.
        cell: the rule.
        belongs: checks who signed.
        noise: the source of randomness.
    """

    def __init__(self, owner: str, cell: Cell, belongs: Belongs, noise: NoiseSource) -> None:
        self._owner, self._cell, self._belongs, self._noise = owner, cell, belongs, noise
        self._secrets: _Secrets | None = None

    @property
    def point(self) -> bytes:
        """Of the present offer."""
        return self._now().point

    def begin(self, slot: int, point: bytes) -> Offer:
        """A new offer for a sum that is taken at this point; nothing is left of an earlier one."""
        seed, mask_key, share_key = self._drawn(), self._key(), self._key()
        publics = (mask_key.public_key().public_bytes_raw(), share_key.public_key().public_bytes_raw())
        offer = Offer(slot, sha256(point).digest(), *publics, commitment(seed))
        self._secrets = _Secrets(offer, point, seed, mask_key, share_key)
        return offer

    def join(self, said: Join) -> Sealed:
        """Shares of the secrets, for a roster with this device's offer in it: for one roster only.

        Raises:
            MessageRefused: the roster is not in order; nothing changed.
        """
        secrets = self._now()
        if secrets.roster is not None:
            raise _refused("this device's offer is in another roster already")
        if not self._cell.least <= len(said.roster) <= self._cell.most:
            raise _refused(f"a roster of {len(said.roster)} devices is not of this task's size")
        roster = roster_of(said.roster)
        if self._owner not in roster.owners:
            raise _refused("a roster without this device")
        place = roster.owners.index(self._owner)
        if roster.offers[place] != secrets.offer:
            raise _refused("a roster with another offer of this device than its last")
        for statement, offer in zip(roster.statements, roster.offers, strict=True):
            self._belongs(statement)
            check_keys(offer.mask_key, offer.share_key)
        threshold = self._cell.opens_at(len(roster))
        seeds = shared(secrets.seed, len(roster), threshold)
        keys = shared(secrets.mask_key.private_bytes_raw(), len(roster), threshold)
        bundle = tuple(
            b""
            if one == place
            else sealed(secrets.share_key, offer.share_key, roster.digest, place, one, Shares(seeds[one], keys[one]))
            for one, offer in enumerate(roster.offers)
        )
        secrets.roster, secrets.place = roster, place
        secrets.own, secrets.bundle = Shares(seeds[place], keys[place]), bundle_digest(bundle)
        return Sealed(bundle)

    def agree(self, said: Mask) -> tuple[int, bytes]:
        """Take it that these members take part: before anything is charged, and once.

        Returns:
            how many the roster has, and h.

        Raises:
            MessageRefused: some gave no shares, or too few are left; nothing changed.
        """
        secrets, roster = self._with_roster()
        if secrets.h:
            raise _refused("this device has agreed on the members of this round already")
        members = said.members
        if list(members) != sorted(set(members)) or not members or members[-1] >= len(roster):
            raise _refused("the members of a round are not places in its roster")
        if secrets.place not in members or len(members) < self._cell.opens_at(len(roster)):
            raise _refused("the members of a round are too few, or without this device")
        if not len(members) == len(said.sealed) == len(said.digests):
            raise _refused("not each member of a round gave its shares")
        if said.digests[members.index(secrets.place)] != secrets.bundle:
            raise _refused("the shares that this device gave are not those that went to the others")
        held = {
            member: opened(
                secrets.share_key, roster.offers[member].share_key, roster.digest, member, secrets.place, raw
            )
            for member, raw in zip(members, said.sealed, strict=True)
            if member != secrets.place
        }
        assert secrets.own is not None  # noqa: S101 - it came with the roster
        secrets.held, secrets.members = {**held, secrets.place: secrets.own}, members
        secrets.h = round_digest(roster, members, said.digests)
        return len(roster), secrets.h

    def mask(self, part: NDArray[np.int64], width: int) -> Vector:
        """This device's part of the sum, masked: once.

        Args:
            part: clipped, with its share of the noise; charged.
            width: bytes of a number.
        """
        secrets, roster = self._with_roster()
        if not secrets.h or secrets.masked:
            raise _refused("a part is masked once, after its members have agreed")
        secrets.masked = True
        vector = part.astype(np.uint64) + own_mask(secrets.seed, secrets.h, len(part), width)
        for other in secrets.members:
            if other != secrets.place:
                pair, key = (secrets.place, other), roster.offers[other].mask_key
                mask = pair_mask(secrets.mask_key, key, secrets.h, pair, len(part), width)
                vector = vector + mask if secrets.place < other else vector - mask
        raw = packed(vector, width)
        return Vector(raw, Masked(secrets.h, sha256(raw).digest()))

    def survive(self, said: Survive) -> Stand:
        """Stand for one set of survivors.

        Raises:
            MessageRefused: it is not this device's to stand for, or it stands for another.
        """
        secrets, roster = self._with_roster()
        survivors = said.survivors
        if not secrets.masked or list(survivors) != sorted(set(survivors)) or not {*survivors} <= {*secrets.members}:
            raise _refused("survivors are not members of this round")
        if secrets.place not in survivors or len(survivors) < self._cell.opens_at(len(roster)):
            raise _refused("survivors are too few, or without this device")
        stand = Stand(secrets.h, survivors)
        if secrets.stand not in (None, stand):
            raise _refused("this device stands for other survivors")
        secrets.stand = stand
        return stand

    def reveal(self, said: Reveal) -> Revealed:
        """Shares by which the sum over the survivors is opened, and no other.

        Raises:
            MessageRefused: too few stand for those for whom this device does.
        """
        secrets, roster = self._with_roster()
        stand = secrets.stand
        if stand is None:
            raise _refused("this device stands for no survivors")
        survivors = {roster.owners[place] for place in stand.survivors}
        owners = [statement.owner for statement in said.stands]
        if len(set(owners)) != len(owners) or not {*owners} <= survivors:
            raise _refused("others than survivors stand for them, or one does twice")
        if len(owners) < self._cell.opens_at(len(roster)):
            raise _refused("too few stand for these survivors")
        credentials = {statement.owner: statement.credential for statement in roster.statements}
        for statement in said.stands:
            if body_of(statement, Stand) != stand:
                raise _refused("a survivor stands for others")
            self._belongs(Statement(statement.owner, statement.body, credentials[statement.owner], statement.signature))
        gone = [place for place in secrets.members if place not in stand.survivors]
        return Revealed(
            tuple(secrets.held[place].seed for place in stand.survivors),
            tuple(secrets.held[place].mask_key for place in gone),
        )

    def _now(self) -> _Secrets:
        if self._secrets is None:
            raise _refused("this device has made no offer since it started")
        return self._secrets

    def _with_roster(self) -> tuple[_Secrets, Roster]:
        secrets = self._now()
        if secrets.roster is None:
            raise _refused("this device is in no roster")
        return secrets, secrets.roster

    def _drawn(self) -> bytes:
        return self._noise.words(4).tobytes()

    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self._drawn())


def _refused(why: str) -> MessageRefused:
    return MessageRefused("cell", why)
