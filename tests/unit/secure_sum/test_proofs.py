"""Proofs of dishonesty: each lie has one, and no statement by an honest member is one."""

from dataclasses import replace

import pytest
from msgspec import structs
from sottovoce.errors import MessageRefused
from sottovoce.secure_sum import steps
from sottovoce.secure_sum.proofs import Equivocation, FalseShare, Proof, WorthlessShares, digest_of, judge_proof
from sottovoce.secure_sum.statements import (
    Body,
    Deal,
    Doubt,
    Knows,
    Lead,
    Masked,
    Named,
    Ready,
    Shown,
    Stand,
    Statement,
    body_of,
)

from tests.cells.fleet import CELL, Round, belongs, fleet, signed
from tests.cells.liars import with_another_seed

LIAR = "member-03"
ONE, OTHER = bytes([1]) * 32, bytes([2]) * 32


def named(proof: Proof) -> str:
    return judge_proof(proof, CELL, belongs)[0]


def proves_nothing(proof: Proof) -> bool:
    try:
        judge_proof(proof, CELL, belongs)
    except MessageRefused:
        return True
    return False


@pytest.mark.parametrize(
    "first, second",
    [
        (Lead(ONE, ONE), Lead(ONE, OTHER)),
        (Ready(ONE, ONE), Ready(ONE, OTHER)),
        (Deal(ONE, 8, ONE, ONE), Deal(ONE, 8, ONE, OTHER)),
        (Masked(ONE, ONE), Masked(ONE, OTHER)),
        (Named(ONE, (1, 2)), Named(ONE, (1, 3))),
        (Stand(ONE, (1, 2)), Stand(ONE, (1, 3))),
    ],
)
def test_two_statements_in_one_round_prove_a_lie(first: Body, second: Body) -> None:
    both = signed(LIAR, first), signed(LIAR, second)
    assert named(Equivocation(*both)) == LIAR
    assert proves_nothing(Equivocation(both[0], both[0]))
    assert proves_nothing(Equivocation(both[0], signed("member-04", second)))
    assert proves_nothing(Equivocation(both[0], replace(both[1], signature=b"forged")))


@pytest.mark.parametrize(
    "first, second",
    [
        (Lead(ONE, ONE), Lead(OTHER, OTHER)),
        (Masked(ONE, ONE), Stand(ONE, (1, 2))),
        (Knows(1, 8, ONE), Knows(1, 8, OTHER)),
        (Doubt("a", "lied"), Doubt("b", "lied")),
        (Shown(ONE, 1, ONE), Shown(ONE, 1, OTHER)),
    ],
)
def test_compatible_statements_prove_nothing(first: Body, second: Body) -> None:
    assert proves_nothing(Equivocation(signed(LIAR, first), signed(LIAR, second)))


def revealed_shares(led: Round) -> dict[int, steps.Revealed]:
    """Return what the first six of eight members reveal about all eight."""
    stands = [led.stand(index, range(8)) for index in range(8)]
    return {index: led.reveal(index, stands[:6]) for index in range(6)}


def worthless(led: Round, dealer: int, revealed: dict[int, steps.Revealed]) -> WorthlessShares:
    offer = led.roster.statements[dealer]
    return WorthlessShares(
        offer,
        _deal(led, dealer, offer),
        False,
        tuple(range(6)),
        tuple(revealed[index].seeds[dealer] for index in range(6)),
    )


def _deal(led: Round, dealer: int, offer: Statement) -> Statement:
    from hashlib import sha256

    return signed(offer.owner, Deal(led.roster.digest, 8, sha256(offer.body).digest(), led.trees[dealer].root))


def test_shares_of_another_seed_prove_a_lie_and_correct_ones_do_not() -> None:
    parties = fleet(8)
    led = Round.called(parties)
    with_another_seed(parties[3].vault)
    revealed = revealed_shares(led.join().mask())
    assert named(proof := worthless(led, 3, revealed)) == LIAR
    assert proves_nothing(worthless(led, 2, revealed))
    assert proves_nothing(structs.replace(proof, offer=led.roster.statements[2]))
    assert proves_nothing(structs.replace(proof, recipients=tuple(range(1, 7))))
    assert proves_nothing(structs.replace(proof, recipients=tuple(range(5)), shares=proof.shares[:5])), "too few"
    assert proves_nothing(structs.replace(proof, recipients=(0, 0, 1, 2, 3, 4)))
    repeated = parties[3].offer()
    assert proves_nothing(structs.replace(proof, offer=repeated)), "a different offer from the roster's"


def test_a_share_that_was_never_dealt_proves_a_lie() -> None:
    led = Round.called(fleet(8)).join().mask()
    honest = revealed_shares(led)[3]
    roots = tuple(led.trees[place].root for place in range(8))

    def proof(revealed: steps.Revealed, place: int = 3) -> FalseShare:
        shown = signed(LIAR, Shown(led.h, place, digest_of(revealed)))
        return FalseShare(shown, revealed, led.roster.digest, led.members, roots)

    assert proves_nothing(proof(honest))
    other = structs.replace(honest.seeds[5], share=bytes(33))
    lied = steps.Revealed((*honest.seeds[:5], other, *honest.seeds[6:]), honest.mask_keys)
    assert named(proof(lied)) == LIAR
    assert proves_nothing(structs.replace(proof(lied), revealed=honest)), "it signed other shares"
    assert proves_nothing(structs.replace(proof(honest), roots=(OTHER, *roots[1:]))), "from another round"
    assert body_of(proof(lied).shown, Shown).place == 3
