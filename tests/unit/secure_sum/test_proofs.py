"""Proofs of dishonesty: each lie has one, and no statement by an honest member is one."""

from dataclasses import replace

import pytest
from msgspec import structs
from sottovoce.algorithms.cell.public.proofs import (
    Equivocation,
    FalseShare,
    InvalidShares,
    Proof,
    judge_proof,
    revealed_digest,
)
from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.statements import (
    Accusation,
    Body,
    Deal,
    Lead,
    Masked,
    Ready,
    ResultCommitment,
    RevealCommitment,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    decode_body,
)

from tests.cells.fleet import CELL, Round, belongs, fleet, signed
from tests.cells.liars import with_another_seed

LIAR = "member-03"
DIGEST, OTHER_DIGEST = bytes([1]) * 32, bytes([2]) * 32


def judged_device(proof: Proof) -> str:
    return judge_proof(proof, CELL, belongs)[0]


def is_rejected(proof: Proof) -> bool:
    try:
        judge_proof(proof, CELL, belongs)
    except MessageRefused:
        return True
    return False


@pytest.mark.parametrize(
    "first, second",
    [
        (Lead(DIGEST, DIGEST), Lead(DIGEST, OTHER_DIGEST)),
        (Ready(DIGEST, DIGEST), Ready(DIGEST, OTHER_DIGEST)),
        (Deal(DIGEST, 8, DIGEST, DIGEST), Deal(DIGEST, 8, DIGEST, OTHER_DIGEST)),
        (Masked(DIGEST, DIGEST), Masked(DIGEST, OTHER_DIGEST)),
        (SurvivorProposal(DIGEST, (1, 2), DIGEST), SurvivorProposal(DIGEST, (1, 3), DIGEST)),
        (SurvivorConfirmation(DIGEST, (1, 2), DIGEST), SurvivorConfirmation(DIGEST, (1, 3), DIGEST)),
    ],
)
def test_two_statements_in_one_round_prove_a_lie(first: Body, second: Body) -> None:
    statements = signed(LIAR, first), signed(LIAR, second)
    assert judged_device(Equivocation(*statements)) == LIAR
    assert is_rejected(Equivocation(statements[0], statements[0]))
    assert is_rejected(Equivocation(statements[0], signed("member-04", second)))
    assert is_rejected(Equivocation(statements[0], replace(statements[1], signature=b"forged")))


@pytest.mark.parametrize(
    "first, second",
    [
        (Lead(DIGEST, DIGEST), Lead(OTHER_DIGEST, OTHER_DIGEST)),
        (Masked(DIGEST, DIGEST), SurvivorConfirmation(DIGEST, (1, 2), DIGEST)),
        (ResultCommitment(1, 8, DIGEST), ResultCommitment(1, 8, OTHER_DIGEST)),
        (Accusation("a", "lied"), Accusation("b", "lied")),
        (RevealCommitment(DIGEST, 1, DIGEST), RevealCommitment(DIGEST, 1, OTHER_DIGEST)),
    ],
)
def test_compatible_statements_prove_nothing(first: Body, second: Body) -> None:
    assert is_rejected(Equivocation(signed(LIAR, first), signed(LIAR, second)))


def revealed_shares(led: Round) -> dict[int, steps.Revealed]:
    """Return what the first six of eight members reveal about all eight."""
    stands = [led.stand(index, range(8)) for index in range(8)]
    return {index: led.reveal(index, stands[:6]) for index in range(6)}


def make_invalid_shares(led: Round, dealer: int, revealed: dict[int, steps.Revealed]) -> InvalidShares:
    offer = led.roster.statements[dealer]
    return InvalidShares(
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
    assert judged_device(proof := make_invalid_shares(led, 3, revealed)) == LIAR
    assert is_rejected(make_invalid_shares(led, 2, revealed))
    assert is_rejected(structs.replace(proof, offer=led.roster.statements[2]))
    assert is_rejected(structs.replace(proof, recipients=tuple(range(1, 7))))
    assert is_rejected(structs.replace(proof, recipients=tuple(range(5)), shares=proof.shares[:5])), "too few"
    assert is_rejected(structs.replace(proof, recipients=(0, 0, 1, 2, 3, 4)))
    repeated = parties[3].offer()
    assert is_rejected(structs.replace(proof, offer=repeated)), "a different offer from the roster's"


def test_a_share_that_was_never_dealt_proves_a_lie() -> None:
    led = Round.called(fleet(8)).join().mask()
    honest = revealed_shares(led)[3]
    roots = tuple(led.trees[index].root for index in range(8))

    def proof(revealed: steps.Revealed, index: int = 3) -> FalseShare:
        shown = signed(LIAR, RevealCommitment(led.h, index, revealed_digest(revealed)))
        return FalseShare(shown, revealed, led.roster.digest, len(led.roster), led.members, roots)

    assert is_rejected(proof(honest))
    other = structs.replace(honest.seeds[5], share=bytes(33))
    false_shares = steps.Revealed((*honest.seeds[:5], other, *honest.seeds[6:]), honest.mask_keys)
    assert judged_device(proof(false_shares)) == LIAR
    assert is_rejected(structs.replace(proof(false_shares), revealed=honest)), "it signed other shares"
    assert is_rejected(structs.replace(proof(honest), roots=(OTHER_DIGEST, *roots[1:]))), "from another round"
    assert decode_body(proof(false_shares).shown, RevealCommitment).place == 3
