"""Attacks by a leader that controls the network and the promised colluding members.

Each attack returns what the attacker gained, or None.
"""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sottovoce.errors import LedgerError, MessageRefused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.masks import centre_values, pair_mask, unpack_values
from sottovoce.privacy.secure_sum.neighbourhoods import NeighbourhoodSize, neighbourhoods
from sottovoce.privacy.secure_sum.opening import Secrets, compute_total, recover_secrets
from sottovoce.privacy.secure_sum.share_tree import ShareTree
from sottovoce.privacy.secure_sum.shares import Combiner
from sottovoce.privacy.secure_sum.statements import (
    Offer,
    Ready,
    Statement,
    SurvivorConfirmation,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.vault import Ledger
from sottovoce_lab.simulator.faults import Faults

from tests.cells.enrolled import Enrolled
from tests.cells.fleet import CELL, CLIP, NOWHERE, Parts, Party, Round, SaidNo, fleet, party, signed
from tests.cells.liars import LIARS, NAMED_BY
from tests.cells.lies import ROLES, play_liar
from tests.cells.liveness import play_liveness
from tests.cells.sparse import sparse_graphs
from tests.cells.world import World

Attack = Callable[[], str | None]
ATTACKS: dict[str, Attack] = {}


def _in_words(kind: str) -> str:
    """Turn a class name into words: `deals_another_seed` for `DealsAnotherSeed`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def attack(play: Attack) -> Attack:
    """Register an attack: a function that returns what the attacker gained, or None."""
    ATTACKS[play.__name__] = play
    return play


@attack
def leaves_a_sum_inexact() -> str | None:
    """Sum honest members, with and without absent ones: the sum must equal the parts' sum, to the last bit."""
    for count, gone in ((8, 0), (8, 2), (9, 2), (12, 3)):
        parties = fleet(count, length=CLIP)
        parts = [Parts(one) for one in parties]
        sum_round = Round.called(parties).join().mask()
        for place in range(gone):
            del sum_round.vectors[place]
        found = sum_round.finish()
        if found.cheaters or not np.array_equal(found.total, sum(part.seen[0] for part in parts[gone:])):
            return f"{count} members, {gone} gone: another sum"
    return None


@attack
def leaves_a_sparse_sum_inexact() -> str | None:
    """Sum honest members on a sparse graph, with and without absent ones."""
    with sparse_graphs():
        return leaves_a_sum_inexact()


@attack
def isolates_a_member() -> str | None:
    """Name as survivors, as the leader, all members but one member's neighbours, and take off that member's masks."""
    cell, victim = Cell(least=12, most=12, colluding=1, threshold=0.6), 4
    with sparse_graphs(NeighbourhoodSize(4, 2)):
        parties = fleet(12, length=CLIP, cell=cell)
        part = Parts(parties[victim])
        sum_round = Round.called(parties, cell=cell).join().mask()
        graph = sum_round.graph
        gone = graph.holders(victim)
        survivors = [place for place in range(12) if place not in gone]
        try:
            stands = [sum_round.stand(place, survivors) for place in survivors]
            revealed = {place: sum_round.reveal(place, stands) for place in survivors}
        except SaidNo:
            return None
        secrets = recover_secrets(sum_round.roster, graph, sum_round.members, survivors, revealed)
        alone = Secrets((secrets.seeds[survivors.index(victim)],), secrets.mask_keys)
        vectors, members = {victim: sum_round.vectors[victim]}, sorted((victim, *gone))
        total = compute_total(sum_round.roster, graph, sum_round.h, members, vectors, alone, sum_round.size)
    return "one member's part" if np.array_equal(total, part.seen[0]) else "shares that isolate a member"


@attack
def leaves_out_too_many_neighbours() -> str | None:
    """Begin a round, as the leader, without one member's neighbours."""
    cell = Cell(least=12, most=12, colluding=1, threshold=0.6)
    with sparse_graphs(NeighbourhoodSize(4, 2)):
        sum_round = Round.called(fleet(12, cell=cell), cell=cell).join()
        for place in sum_round.graph.holders(4):
            del sum_round.sealed[place]
        return _attempt(lambda: sum_round.agree([4]), "a member agreed to a round without its neighbours")


@attack
def withholds_a_neighbour_s_shares() -> str | None:
    """List a neighbour as a member of the round, as the leader, but pass on none of its shares."""
    with sparse_graphs():
        sum_round = Round.called(fleet(8)).join()
        whole = sum_round.agree_for(0)
        few = steps.Agree(whole.members, whole.sealed[1:], whole.paths[1:], whole.roots)
        return _attempt(lambda: sum_round.parties[0].ask(few, Ready), "a member agreed without a neighbour's shares")


@attack
def wraps_around() -> str | None:
    """Give every member an equal vector, the largest that the clip allows: the sum must not wrap around."""
    parties = [party(number, [CLIP], epsilon=None) for number in range(12)]
    found = Round.called(parties).join().mask().finish()
    cell_context = parties[0].vault._cell
    assert cell_context is not None
    mean = float(found.total[0]) * cell_context.mechanism.step / 12
    return None if abs(mean - CLIP) < 1e-4 else f"a mean of {mean:g} where all have {CLIP:g}"


@attack
def moves_the_sum_by_more_than_the_clip() -> str | None:
    honest = Round.called(fleet(8, length=0.0, epsilon=None)).join().mask().finish().total
    parties = [*fleet(7, length=0.0, epsilon=None), party(7, [1e6, 0, 0, 0], epsilon=None)]
    moved = Round.called(parties).join().mask().finish().total - honest
    cell_context = parties[0].vault._cell
    assert cell_context is not None
    length = float(np.sqrt((moved.astype(float) ** 2).sum())) * cell_context.mechanism.step
    return None if length <= CLIP * (1 + 1e-9) else f"one device moved the sum by {length:g}"


@attack
def calls_two_rosters() -> str | None:
    """Put one set of offers into two rosters, as the leader."""
    sum_round = Round.called(fleet(9))
    sum_round.join()
    other = Round(sum_round.parties[:8], roster_from_offers(sum_round.roster.statements[:8]))
    return _attempt(lambda: other.join([0]), "a second roster was joined with the same offer")


@attack
def calls_too_few() -> str | None:
    sum_round = Round.called(fleet(5))
    return _attempt(lambda: sum_round.join([0]), "a roster below the smallest was joined")


@attack
def calls_strangers() -> str | None:
    """Fill the roster with members unknown to the fleet, all of them the attacker's own."""
    honest = fleet(6)[0]
    strangers = [replace(signed(f"stranger-{i}", _offer()), signature=b"x") for i in range(7)]
    roster = sorted([honest.offer(), *strangers], key=lambda one: one.owner)
    return _attempt(lambda: honest.ask(steps.Join(tuple(roster)), steps.Sealed), "a roster of strangers was joined")


@attack
def lists_a_device_twice() -> str | None:
    honest, other = fleet(2)
    offers = (honest.offer(), *(signed(other.name, _offer()) for _ in range(7)))
    return _attempt(
        lambda: honest.ask(steps.Join(offers), steps.Sealed), "a roster with a device seven times was joined"
    )


@attack
def calls_with_an_old_offer() -> str | None:
    """Call with the last offer but one, as the leader; its secrets should be gone."""
    parties = fleet(8)
    old = [one.offer() for one in parties]
    parties[0].offer()
    return _attempt(lambda: parties[0].ask(steps.Join(tuple(old)), steps.Sealed), "an old offer was still good")


@attack
def asks_for_two_vectors() -> str | None:
    """Request two vectors for two sets of members: the two would differ only in their noise."""
    sum_round = Round.called(fleet(8)).join().mask()
    one, members = sum_round.parties[0], sum_round.members
    fewer = sum_round.agree_for(0, members[:-1])
    return _attempt(lambda: one.ask(sum_round.go, steps.Vector), "a second masked vector") or _attempt(
        lambda: one.ask(fewer, Ready), "a second round for one offer"
    )


@attack
def names_too_few_members() -> str | None:
    sum_round = Round.called(fleet(8)).join()
    fewer = sum_round.agree_for(0, (0, 1, 2))
    return _attempt(lambda: sum_round.parties[0].ask(fewer, Ready), "ready for three members of eight")


@attack
def keeps_a_member_without_shares() -> str | None:
    """Seal noise as one member's shares: a device accepting it could not open its part, or would reveal another's."""
    sum_round = Round.called(fleet(8)).join()
    garbage = tuple(b"" if place == 7 else bytes(82) for place in range(8))
    sum_round.sealed[7] = garbage
    return _attempt(lambda: sum_round.agree([0]), "ready, although a member sealed no shares")


@attack
def deals_other_shares_than_it_commits_to() -> str | None:
    """Commit to one set of shares and seal another, as a member: its part could never be opened."""
    sum_round = Round.called(fleet(8)).join()
    sum_round.trees[7] = ShareTree([bytes([place]) * 32 for place in range(16)], sum_round.sealed[7])
    return _attempt(lambda: sum_round.agree([0]), "ready, although a share does not fit its commitment")


@attack
def begins_with_few_members() -> str | None:
    """Request a vector, and so a charge, before enough members are ready for the round."""
    sum_round = Round.called(fleet(8)).join().agree()
    one, readies = sum_round.parties[0], sum_round.go.readies
    other = Ready(sum_round.roster.digest, sha256(b"other").digest())
    for few in (
        readies[:5],
        readies[:3] * 2,
        (readies[0], *(replace(ready, signature=b"forged") for ready in readies[1:6])),
        tuple(signed(owner, other) for owner in sum_round.roster.owners[:6]),
    ):
        if (gain := _attempt(lambda few=few: one.ask(steps.Mask(few), steps.Vector), "a vector for a few")) is not None:  # type: ignore[misc]
            return gain
    return None


@attack
def finds_secrets_after_the_round() -> str | None:
    """Search a vault for secrets: keys once its part is masked, and shares once the round is finished."""
    sum_round = Round.called(fleet(8)).join().mask()
    one = sum_round.parties[0]
    member = one.vault._cell.member  # type: ignore[union-attr]
    if member._secrets is None or member._secrets.keys is not None:
        return "the keys are there after the part is masked"
    sum_round.finish()
    one.ask(steps.End(0), steps.Ended)
    return None if member._secrets is None else "shares are there after the round is finished"


@attack
def swaps_the_bundles() -> str | None:
    """Hand this device one member's shares as if they were another's, as the leader."""
    sum_round = Round.called(fleet(8)).join()
    sum_round.sealed[1], sum_round.sealed[2] = sum_round.sealed[2], sum_round.sealed[1]
    sum_round.trees[1], sum_round.trees[2] = sum_round.trees[2], sum_round.trees[1]
    return _attempt(lambda: sum_round.agree([0]), "shares of one member passed for another's")


@attack
def names_two_sets_of_survivors() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask()
    all_of_them, fewer = range(8), range(7)
    sum_round.stand(0, all_of_them)
    return _attempt(lambda: sum_round.stand(0, fewer), "a member stood for two sets of survivors")


@attack
def names_too_few_survivors() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask()
    return _attempt(lambda: sum_round.stand(0, range(3)), "a member stood for three survivors of eight")


@attack
def opens_two_sets() -> str | None:
    """Collude with one member more than promised: with only the promised one, no two sets can be opened."""
    sum_round = Round.called(fleet(8)).join().mask()
    first = [sum_round.stand(place, range(8)) for place in range(8)]
    revealed = [sum_round.reveal(place, first[:6]) for place in range(6)]
    false_stands = [
        signed(sum_round.roster.owners[place], SurvivorConfirmation(sum_round.h, tuple(range(7)), NOWHERE))
        for place in range(6)
    ]
    try:
        more = [sum_round.reveal(place, false_stands) for place in range(6)]
    except SaidNo:
        return None
    keys = Combiner(tuple(range(6))).secret({place: reply.mask_keys[0].share for place, reply in enumerate(more)})
    return f"two sets opened: both secrets of a member ({len(revealed)} seeds, {keys[:4].hex()})"


@attack
def takes_both_shares() -> str | None:
    """Look for a member for whom both the share of the seed and the share of the mask key are revealed."""
    sum_round = Round.called(fleet(8)).join().mask()
    stands = [sum_round.stand(place, range(7)) for place in range(7)]
    reply = sum_round.reveal(0, stands[:6])
    if len(reply.seeds) + len(reply.mask_keys) != 8:
        return "more shares than members"
    held = sum_round.parties[0].vault._cell.member._secrets.received_shares  # type: ignore[union-attr]
    seeds, keys = ({one.share for one in shares} for shares in (reply.seeds, reply.mask_keys))
    both = [place for place in range(8) if held[place].shares.seed in seeds and held[place].shares.mask_key in keys]
    return f"both shares of members {both}" if both else None


@attack
def opens_with_few_stands() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask()
    stands = [sum_round.stand(place, range(8)) for place in range(8)]
    return _attempt(lambda: sum_round.reveal(0, stands[:5]), "five of eight opened a sum")


@attack
def stands_twice_for_the_same() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask()
    stands = [sum_round.stand(place, range(8)) for place in range(8)]
    return _attempt(lambda: sum_round.reveal(0, stands[:3] * 2), "the stands of three counted as six")


@attack
def forges_stands() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask()
    stands = [sum_round.stand(place, range(8)) for place in range(8)]
    forged = [stands[0], *(replace(stand, signature=b"forged") for stand in stands[1:6])]
    return _attempt(lambda: sum_round.reveal(0, forged), "forged stands opened a sum")


@attack
def stands_of_another_round() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask()
    sum_round.stand(0, range(8))
    others = [
        signed(owner, SurvivorConfirmation(sha256(b"other").digest(), tuple(range(8)), NOWHERE))
        for owner in sum_round.roster.owners
    ]
    return _attempt(lambda: sum_round.reveal(0, others[:6]), "stands of another round opened a sum")


@attack
def asks_before_the_vector() -> str | None:
    sum_round = Round.called(fleet(8)).join().mask([1, 2, 3, 4, 5, 6, 7])
    return _attempt(lambda: sum_round.stand(0, range(8)), "a member stood for survivors before it gave its vector")


@attack
def unmasks_a_late_member() -> str | None:
    """Declare a member gone and reveal its mask key; then deliver its vector after all."""
    sum_round = Round.called(fleet(8, length=CLIP)).join().mask()
    parts, late = sum_round.parties, 7
    stands = [sum_round.stand(place, range(7)) for place in range(7)]
    revealed = {place: sum_round.reveal(place, stands[:6]) for place in range(6)}
    key = Combiner(tuple(range(6))).secret({place: reply.mask_keys[0].share for place, reply in revealed.items()})
    private, size = X25519PrivateKey.from_private_bytes(key), sum_round.size
    width = len(sum_round.vectors[late]) // size
    vector = unpack_values(sum_round.vectors[late], width)
    for other in range(7):
        mask = pair_mask(private, sum_round.roster.offers[other].mask_key, sum_round.h, (late, other), size, width)
        vector = vector + mask  # the masks were subtracted, as the late member is the last
    cell_context = parts[late].vault._cell
    assert cell_context is not None
    far = np.abs(centre_values(vector, width)).max() / cell_context.mechanism.share(8)
    return f"the vector of one device, {far:.1f} deviations of its share away" if far < 100 else None


@attack
def copies_a_key() -> str | None:
    """Offer another member's mask key as one's own: the masks with the two must not cancel."""
    parties = fleet(8)
    offers = [one.offer() for one in parties]
    victim = _body(offers[3])
    copied = Offer(0, NOWHERE, victim.mask_key, _body(offers[5]).share_key, _body(offers[5]).commitment)
    roster = roster_from_offers([*offers[:5], signed(parties[5].name, copied), *offers[6:]])
    h = round_digest(neighbourhoods(CELL, roster.digest, 8), range(8), [bytes(32)] * 8)
    own = X25519PrivateKey.generate()
    with_one, with_other = (pair_mask(own, victim.mask_key, h, (4, other), 16, 4) for other in (3, 5))
    return "masks with two members are alike" if np.array_equal(with_one, with_other) else None


@attack
def subtracts_two_rounds() -> str | None:
    """Compare one device's masked vectors in two rounds: keys, seeds and noise must be new each time."""
    parties = fleet(8)
    parts = Parts(parties[0])
    first = Round.called(parties).join().mask()
    second = Round.called(parties).join().mask()
    for one, other in zip(first.roster.offers, second.roster.offers, strict=True):
        if {one.mask_key, one.share_key, one.commitment} & {other.mask_key, other.share_key, other.commitment}:
            return "a key of the first round is offered again"
    if np.array_equal(parts.seen[0], parts.seen[1]):
        return "the same noise in a second attempt"
    if first.vectors[0] == second.vectors[0]:
        return "the same masked vector"
    return None


@attack
def restarts_a_vault() -> str | None:
    """Restart a vault in the middle of a round: it must give no vector, and must offer other keys."""
    parties = fleet(8)
    sum_round = Round.called(parties).join().agree()
    again = party(0, [1.0, 0, 0, 0], seed=1, ledger=parties[0].ledger)
    if (gain := _attempt(lambda: again.ask(sum_round.go, steps.Vector), "a vector after a restart")) is not None:
        return gain
    offer, before = _body(again.offer()), sum_round.roster.offers[0]
    same = {offer.mask_key, offer.share_key, offer.commitment} & {before.mask_key, before.share_key, before.commitment}
    return "keys outlived a restart" if same else None


@attack
def takes_a_vector_unpaid() -> str | None:
    """Fail the ledger's disk at the charge: no vector may leave."""
    sum_round = Round.called(fleet(8)).join().agree()
    one = sum_round.parties[0]

    def fails(*_: object) -> bool:
        raise LedgerError("the disk is full")

    with patch.object(Ledger, "charge", fails):
        try:
            one.ask(sum_round.go, steps.Vector)
        except (LedgerError, SaidNo):
            return None
    return "a masked vector, and no charge"


@attack
def takes_more_than_is_paid_for() -> str | None:
    """Request more rounds than the two that the budget allows."""
    parties = fleet(8)
    for _ in range(1 + CELL.spare):
        Round.called(parties).join().mask()
    return _attempt(lambda: Round.called(parties).join().mask(), "a third vector out of a budget for two")


@attack
def finds_secrets_on_the_disk() -> str | None:
    """Search the ledger, after a round, for the secrets that the vault had in memory."""
    parties = fleet(8)
    parts = Parts(parties[0])
    sum_round = Round.called(parties).join().agree()
    cell_context = parties[0].vault._cell
    assert cell_context is not None
    secrets = cell_context.member._secrets
    assert secrets is not None
    keys = secrets.keys
    assert keys is not None
    sum_round.mask().finish()
    kept = _dump_ledger(parties[0])
    looked_for = {
        "the seed": keys.seed,
        "the mask key": keys.mask_key.private_bytes_raw(),
        "the share key": keys.share_key.private_bytes_raw(),
        "a share": secrets.received_shares[1].shares.seed,
        "the part before it was masked": parts.seen[0].astype("<i8").tobytes(),
    }
    return next((f"{name} is in the ledger" for name, raw in looked_for.items() if raw in kept), None)


@attack
def measures_the_noise() -> str | None:
    """Subtract the colluders' own shares of noise: the rest must have the charged variance."""
    size, rounds = 400, 30
    left, claimed = [], 0.0
    for seed in range(rounds):
        parties = [party(number, [0.0] * size, seed=seed) for number in range(8)]
        parts = [Parts(one) for one in parties]
        sum_round = Round.called(parties).join().mask()
        for gone in (6, 7):
            del sum_round.vectors[gone]
        total = sum_round.finish().total - parts[0].seen[0]  # the part of the member that is promised to collude
        left.append(total)
        (_, terms, _) = next(iter(parties[1].ledger.charges()))
        claimed = _claimed_variance(terms)
    found = float(np.var(np.concatenate(left)))
    deviations = (found / claimed - 1) / np.sqrt(2 / (size * rounds))
    return f"a variance of {found / claimed:.3f} of what is charged" if deviations < -5 else None


@attack
def hides_a_wrong_seed() -> str | None:
    """Deal shares of a seed other than the promised one, as a member: the leader must identify that member."""
    parties = fleet(8)
    cell_context = parties[2].vault._cell
    assert cell_context is not None
    sum_round = Round.called(parties)
    secrets = cell_context.member._secrets
    assert secrets is not None
    assert secrets.keys is not None
    secrets.keys = replace(secrets.keys, seed=bytes(32))
    found = sum_round.join().mask().finish()
    return None if found.cheaters == (2,) else f"a sum, and {found.cheaters} named"


@attack
def calls_a_revoked_device() -> str | None:
    """Call, with real certificates, a device that the fleet has revoked and one whose certificate has expired."""
    with TemporaryDirectory() as directory:
        found = Enrolled(Path(directory)).accepted_outsiders()
    return None if not found else f"a roster with a device that is {', or '.join(found)} was joined"


_APART = range(3)  # seeds of fleets that start apart


@attack
def starts_apart() -> str | None:
    """Start groups apart, and partition and crash devices: a sum must open soon after the last fault."""
    return next((gap for seed in _APART if isinstance(gap := play_liveness(seed), str)), None)


@attack
def wishes_alone() -> str | None:
    """Wish for later attempts on every beat, while honest devices wait for others that start later."""
    liar = "member-00"
    faults = Faults(delay=0.4, delay_spread=0.4)
    world = World(count=8, liars={liar: LIARS["WishesFarAhead"]}, faults=faults)
    late = world.names[1:4]
    world.start(late)
    world.run(10)
    world.restart(late)
    world.run(60)
    return None if len(world.informed_devices()) == 7 else f"{len(world.informed_devices())} of 7 know the sum"


def _liar_attack(kind: str) -> Attack:
    """Make an attack of a kind of liar, which plays as the leader, as its deputy and as another member."""

    def play() -> str | None:
        return next(
            (gain for place in NAMED_BY.get(kind, ROLES) if (gain := play_liar(kind, place, 8)) is not None), None
        )

    return play


LIES = {_in_words(kind): _liar_attack(kind) for kind in LIARS}
"""Attacks that play whole fleets, which takes longer."""
ATTACKS.update(LIES)


def _attempt(act: Callable[[], object], what: str) -> str | None:
    """Attempt an action; return `what`, or None if the action was refused."""
    try:
        act()
    except (SaidNo, MessageRefused):
        return None
    return what


def _offer() -> Offer:
    key = X25519PrivateKey.generate().public_key().public_bytes_raw()
    return Offer(0, NOWHERE, key, key, bytes(32))


def _body(statement: Statement) -> Offer:
    from sottovoce.privacy.secure_sum.statements import decode_body

    return decode_body(statement, Offer)


def _dump_ledger(one: Party) -> bytes:
    """Return every byte of a ledger's database."""
    connection: sqlite3.Connection = one.ledger._connection
    return bytes(connection.serialize())


def _claimed_variance(terms: str) -> float:
    from sottovoce.privacy.accounting.event_parser import parse_event
    from sottovoce.privacy.accounting.events import CellSum

    event = parse_event(terms)
    assert isinstance(event, CellSum)
    return float(event.honest * event.share**2)
