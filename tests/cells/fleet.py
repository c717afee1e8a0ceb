"""Members with real vaults, and rounds between them: signatures are faked, everything else is the shipped code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import MessageRefused
from sottovoce.kernels.profile import Profile
from sottovoce.learning.learners.published_records import Signed
from sottovoce.privacy.api import CellQuery, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods, neighbourhoods
from sottovoce.privacy.secure_sum.opening import compute_total, recover_secrets
from sottovoce.privacy.secure_sum.share_tree import ShareTree
from sottovoce.privacy.secure_sum.statements import (
    Body,
    Offer,
    Ready,
    Roster,
    Statement,
    SurvivorConfirmation,
    body_bytes,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault


@dataclass(frozen=True, slots=True)
class Opened:
    """Opened sum, or the members that were found to have cheated."""

    total: NDArray[np.int64]
    cheaters: tuple[int, ...] = ()


A = TypeVar(
    "A", Offer, steps.Sealed, Ready, steps.Unfit, steps.Vector, SurvivorConfirmation, steps.Revealed, steps.Ended
)
Floats = NDArray[np.float64]

LEARNER = "average"
CELL = Cell(least=6, most=12, colluding=1, threshold=0.7, spare=1)
CLIP = 2.0
NOWHERE = sha256(b"").digest()


class SaidNo(Exception):
    """Error of a step that a vault refused."""


def signature(statement: Statement) -> bytes:
    """Return a stand-in for a signature, which only its owner is supposed to be able to make."""
    return sha256(b"secret of " + statement.signed_bytes("fleet", b"task")).digest()


def belongs(statement: Statement) -> None:
    if not statement.owner.startswith("member-"):
        raise MessageRefused("provenance", "not of this fleet")
    if statement.signature != signature(statement):
        raise MessageRefused("provenance", "not signed by its owner")


S = TypeVar("S", bound=Signed)


class Pretended:
    """Provenance with faked signatures, for the attacks."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    def sign(self, own: S) -> S:
        assert isinstance(own, Statement)
        return cast(S, replace(own, signature=signature(own)))

    def verify(self, published: Signed) -> None:
        assert isinstance(published, Statement)
        belongs(published)

    def admit(self, published: Signed) -> None:
        self.verify(published)
        if self.is_revoked(published.owner):
            raise MessageRefused("revoked", "revoked by its fleet")

    def is_revoked(self, owner: str) -> bool:
        return owner in self.revoked


def signed(owner: str, body: Body) -> Statement:
    bare = Statement(owner, body_bytes(body))
    return replace(bare, signature=signature(bare))


@dataclass
class Party:
    """Member: its vault, and what an attacker in its agent would see."""

    name: str
    vault: Vault
    ledger: Ledger

    def ask(self, step: steps.Question, kind: type[A]) -> A:
        """Return the vault's answer to a step. Raises SaidNo if there is no answer."""
        answer = self.vault.step(CellQuery(LEARNER, steps.encode_step(step)))
        if isinstance(answer, Refused):
            raise SaidNo(f"{answer.reason}: {answer.explanation}")
        decoded = steps.decode_answer(answer.payload)
        if isinstance(decoded, steps.Unfit) and kind is not steps.Unfit:
            raise SaidNo(f"shares of {decoded.dealers} do not fit")
        assert isinstance(decoded, kind)
        return decoded

    def offer(self, slot: int = 0) -> Statement:
        return signed(self.name, self.ask(steps.Begin(slot, b""), Offer))


def party(
    number: int,
    vector: Sequence[float],
    *,
    epsilon: float | None = 1.0,
    cell: Cell = CELL,
    seed: int = 0,
    ledger: Ledger | None = None,
) -> Party:
    """Make a member whose device holds this vector."""
    name = f"member-{number:02d}"
    features = np.array([vector], dtype=np.float64)
    ledger = ledger or Ledger.in_memory(name, Budget(epsilon, 1e-5, "device", "add-remove"))
    vault = build(
        records=Records(features, np.zeros(1, dtype=np.int64)),
        kernel=None,
        terms=MeanTerms(LEARNER, Profile(len(vector), CLIP), cell),
        ledger=ledger,
        noise=SeededNoise(1000 * seed + number),
        verify_signature=belongs,
    )
    return Party(name, vault, ledger)


def fleet(count: int = 8, *, size: int = 4, length: float = 1.0, **options: object) -> list[Party]:
    """Make members with vectors of this length, along each axis in turn."""
    vectors = [[length * (axis == number % size) for axis in range(size)] for number in range(count)]
    return [party(number, vector, **options) for number, vector in enumerate(vectors)]  # type: ignore[arg-type]


@dataclass
class Round:
    """A round among all or some members, in which the test acts as the leader."""

    parties: Sequence[Party]
    roster: Roster
    sealed: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    trees: dict[int, ShareTree] = field(default_factory=dict)
    readies: dict[int, Statement] = field(default_factory=dict)
    members: tuple[int, ...] = ()
    h: bytes = b""
    vectors: dict[int, bytes] = field(default_factory=dict)
    cell: Cell = CELL

    @classmethod
    def called(cls, parties: Sequence[Party], slot: int = 0, cell: Cell = CELL) -> "Round":
        """Begin a round: every party offers, and the roster lists them in their order."""
        return cls(parties, roster_from_offers([one.offer(slot) for one in parties]), cell=cell)

    def join(self, places: Sequence[int] | None = None) -> "Round":
        for place in range(len(self.parties)) if places is None else places:
            decoded = self.parties[place].ask(steps.Join(self.roster.statements), steps.Sealed)
            self.sealed[place], self.trees[place] = decoded.sealed, ShareTree(decoded.leaves, decoded.sealed)
        return self

    def agree_for(self, place: int, members: Sequence[int] | None = None) -> steps.Agree:
        """Return the leader's message to one member with the members of the round."""
        chosen = tuple(sorted(self.sealed)) if members is None else tuple(members)
        ranks = {one: self.graph.holders(one).index(place) for one in self.graph.present_holders(place, chosen)}
        paths = tuple(self.trees[one].path(rank) for one, rank in ranks.items())
        roots = tuple(self.trees[one].root for one in chosen)
        return steps.Agree(chosen, tuple(self.sealed[one][rank] for one, rank in ranks.items()), paths, roots)

    def agree(self, places: Sequence[int] | None = None) -> "Round":
        self.members = tuple(sorted(self.sealed))
        self.h = round_digest(self.graph, self.members, [self.trees[one].root for one in self.members])
        for place in self.members if places is None else places:
            ready = self.parties[place].ask(self.agree_for(place), Ready)
            assert ready == Ready(self.roster.digest, self.h)
            self.readies[place] = signed(self.roster.owners[place], ready)
        return self

    @property
    def go(self) -> steps.Mask:
        """Message from the leader to all members, with the list of ready members."""
        return steps.Mask(tuple(self.readies[place] for place in sorted(self.readies)))

    def mask(self, places: Sequence[int] | None = None) -> "Round":
        if not self.readies:
            self.agree()
        for place in self.members if places is None else places:
            decoded = self.parties[place].ask(self.go, steps.Vector)
            assert decoded.statement.round == self.h
            self.vectors[place] = decoded.vector
        return self

    def stand(self, place: int, survivors: Sequence[int]) -> Statement:
        decoded = self.parties[place].ask(steps.Survive(tuple(survivors), NOWHERE), SurvivorConfirmation)
        return signed(self.roster.owners[place], decoded)

    def reveal(self, place: int, stands: Sequence[Statement]) -> steps.Revealed:
        return self.parties[place].ask(steps.Reveal(tuple(stands)), steps.Revealed)

    def finish(self, survivors: Sequence[int] | None = None, *, opens_at: int | None = None) -> Opened:
        """Open the sum over the members whose vectors arrived, or over some of them."""
        chosen = sorted(self.vectors) if survivors is None else list(survivors)
        stands = [self.stand(place, chosen) for place in chosen]
        needed = self.cell.opening_threshold(len(self.roster)) if opens_at is None else opens_at
        revealing = chosen[:needed] if self.graph.sparse is None else chosen
        revealed = {place: self.reveal(place, stands[:needed]) for place in revealing}
        return self.open(chosen, revealed)

    def open(self, survivors: Sequence[int], revealed: Mapping[int, steps.Revealed]) -> Opened:
        vectors = {place: self.vectors[place] for place in survivors}
        secrets = recover_secrets(self.roster, self.graph, self.members, sorted(survivors), revealed)
        if secrets.cheaters:
            return Opened(np.zeros(self.size, dtype=np.int64), secrets.cheaters)
        return Opened(compute_total(self.roster, self.graph, self.h, self.members, vectors, secrets, self.size))

    @property
    def graph(self) -> Neighbourhoods:
        """The neighbourhoods of the roster."""
        return neighbourhoods(self.cell, self.roster.digest, len(self.roster))

    @property
    def size(self) -> int:
        room = self.parties[0].vault._cell
        assert room is not None
        return room.mechanism.size


def part_of(one: Party) -> "Parts":
    """Watch what a vault masks, which is otherwise invisible."""
    return Parts(one)


class Parts:
    """Parts of a sum as a vault makes them, before they are masked."""

    def __init__(self, one: Party) -> None:
        room = one.vault._cell
        assert room is not None
        self.seen: list[NDArray[np.int64]] = []
        made = room.member.mask

        def mask(part: NDArray[np.int64], width: int) -> steps.Vector:
            self.seen.append(part.copy())
            return made(part, width)

        room.member.mask = mask  # type: ignore[method-assign]
