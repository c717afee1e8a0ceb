"""Bugs planted into the shipped code of secure sums, one at a time, with the attacks that must find each."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.cell.public import gathering, knowledge, machine
from sottovoce.algorithms.cell.public.dishonesty import Dishonesty
from sottovoce.algorithms.cell.public.gathering import LeaderUpdate, StatementCollector
from sottovoce.algorithms.cell.public.knowledge import Knowledge
from sottovoce.algorithms.cell.public.messages import Shared
from sottovoce.algorithms.cell.public.state import LeaderState
from sottovoce.node.gossip.revocation_store import StoredRevocations
from sottovoce.node.provenance import SignatureVerifier
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.mechanisms import cell_sum
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.secure_sum import masks, opening, shares, steps
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods, neighbourhoods
from sottovoce.privacy.secure_sum.opening import VerifiedOpening
from sottovoce.privacy.secure_sum.statements import (
    Accusation,
    Offer,
    Ready,
    ResultCommitment,
    Roster,
    SurvivorConfirmation,
    decode_body,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.vault import cell_context, cell_member
from sottovoce.privacy.vault.cell_context import CellContext
from sottovoce.privacy.vault.cell_member import CellMember

Bug = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[str, tuple[Bug, tuple[str, ...]]] = {}


def found_by(*attacks: str) -> Callable[[Bug], Bug]:
    """Register a bug, with the attacks that must find it."""

    def register(bug: Bug) -> Bug:
        BUGS[bug.__name__] = (bug, attacks)
        return bug

    return register


@found_by("names_two_sets_of_survivors")
def two_sets_signed_in_a_round(patch: pytest.MonkeyPatch) -> None:
    survive = CellMember.survive

    def faulty_survive(self: CellMember, request: steps.Survive) -> SurvivorConfirmation:
        assert self._secrets is not None
        self._secrets.stand = None
        return survive(self, request)

    patch.setattr(CellMember, "survive", faulty_survive)


@found_by("takes_both_shares")
def both_shares_of_a_member_revealed(patch: pytest.MonkeyPatch) -> None:
    reveal = CellMember.reveal

    def faulty_reveal(self: CellMember, request: steps.Reveal) -> steps.Revealed:
        honest = reveal(self, request)
        assert self._secrets is not None
        return steps.Revealed(
            honest.seeds,
            tuple(self._secrets.received_shares[one].mask_key_share(one) for one in self._secrets.members),
        )

    patch.setattr(CellMember, "reveal", faulty_reveal)


@found_by("subtracts_two_rounds")
def masks_reused(patch: pytest.MonkeyPatch) -> None:
    drawn = CellMember._random_seed

    def faulty_random_seed(self: CellMember) -> bytes:
        known: list[bytes] = self.__dict__.setdefault("known", [])
        number = self.__dict__["count"] = self.__dict__.get("count", -1) + 1
        if number < 3:
            known.append(drawn(self))
        return bytes(known[number % 3])

    patch.setattr(CellMember, "_random_seed", faulty_random_seed)


@found_by("subtracts_two_rounds")
def same_noise_in_a_second_attempt(patch: pytest.MonkeyPatch) -> None:
    apply, known = CellMechanism.apply, {}

    def faulty_apply(self: CellMechanism, raw: Any, members: int, noise: Any) -> NDArray[np.int64]:
        if id(noise) not in known:
            known[id(noise)] = (noise, apply(self, raw, members, noise))
        return known[id(noise)][1]

    patch.setattr(CellMechanism, "apply", faulty_apply)


@found_by("calls_strangers")
def roster_not_checked(patch: pytest.MonkeyPatch) -> None:
    join = CellMember.join

    def faulty_join(self: CellMember, request: steps.Join) -> steps.Sealed:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "_verify_signature", lambda _: None)
            return join(self, request)

    patch.setattr(CellMember, "join", faulty_join)


@found_by("calls_too_few")
def small_rosters_joined(patch: pytest.MonkeyPatch) -> None:
    join = CellMember.join

    def faulty_join(self: CellMember, request: steps.Join) -> steps.Sealed:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "_cell", replace(self._cell, least=2))
            return join(self, request)

    patch.setattr(CellMember, "join", faulty_join)


@found_by("lists_a_device_twice")
def devices_listed_twice_in_a_roster(patch: pytest.MonkeyPatch) -> None:
    def faulty_roster_of(statements: Any) -> Roster:
        found = [roster_from_offers([one]) for one in statements]
        return Roster(tuple(statements), tuple(one.offers[0] for one in found))

    patch.setattr(cell_member, "roster_from_offers", faulty_roster_of)


@found_by("calls_two_rosters")
def two_rosters_joined(patch: pytest.MonkeyPatch) -> None:
    join = CellMember.join

    def faulty_join(self: CellMember, request: steps.Join) -> steps.Sealed:
        assert self._secrets is not None
        self._secrets.roster = None
        return join(self, request)

    patch.setattr(CellMember, "join", faulty_join)


@found_by("calls_with_an_old_offer")
def old_offers_accepted(patch: pytest.MonkeyPatch) -> None:
    begin, join = CellMember.begin, CellMember.join

    def faulty_begin(self: CellMember, slot: int, point: bytes) -> Offer:
        before: dict[Offer, Any] = self.__dict__.setdefault("before", {})
        offer = begin(self, slot, point)
        before[offer] = self._secrets
        return offer

    def faulty_join(self: CellMember, request: steps.Join) -> steps.Sealed:
        for offer in roster_from_offers(request.roster).offers:
            self._secrets = self.__dict__["before"].get(offer, self._secrets)
        return join(self, request)

    patch.setattr(CellMember, "begin", faulty_begin)
    patch.setattr(CellMember, "join", faulty_join)


@found_by("keeps_a_member_without_shares")
def members_without_shares_kept(patch: pytest.MonkeyPatch) -> None:
    opened = shares.open_shares

    def faulty_open_shares(*arguments: Any) -> shares.Shares:
        try:
            return opened(*arguments)
        except Exception:  # noqa: BLE001 - that is the bug
            return shares.Shares(bytes(33), bytes(33))

    patch.setattr(cell_member, "open_shares", faulty_open_shares)
    patch.setattr(cell_member._ReceivedShares, "matches", lambda *_: True)


@found_by("deals_other_shares_than_it_commits_to")
def share_commitments_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cell_member._ReceivedShares, "matches", lambda *_: True)


@found_by("begins_with_few_members")
def rounds_begun_by_few_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellMember, "check_ready", _without_threshold(CellMember.check_ready))


@found_by("begins_with_few_members")
def readies_not_verified(patch: pytest.MonkeyPatch) -> None:
    def faulty_check_ready(self: CellMember, request: steps.Mask) -> tuple[int, bytes]:
        secrets, roster = self._secrets_and_roster()
        return len(roster), secrets.h

    patch.setattr(CellMember, "check_ready", faulty_check_ready)


@found_by("isolates_a_member", "leaves_out_too_many_neighbours")
def neighbours_not_required(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Neighbourhoods, "joins", lambda *_: True)


@found_by("leaves_a_sparse_sum_inexact")
def masks_with_members_that_are_no_neighbours(patch: pytest.MonkeyPatch) -> None:
    mask = CellMember.mask

    def faulty_mask(self: CellMember, part: NDArray[np.int64], width: int) -> steps.Vector:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Neighbourhoods, "present_holders", lambda *arguments: tuple(arguments[2]))
            return mask(self, part, width)

    patch.setattr(CellMember, "mask", faulty_mask)


@found_by("finds_secrets_after_the_round")
def secrets_kept_after_the_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellMember, "end", lambda *_: None)


@found_by("swaps_the_bundles")
def shares_not_bound_to_their_sender(patch: pytest.MonkeyPatch) -> None:
    cipher = shares._cipher
    known: dict[bytes, Any] = {}

    def faulty_cipher(own: Any, other: bytes, roster: bytes, sender: int, recipient: int) -> Any:
        return known.setdefault(roster, cipher(own, other, roster, 0, 0))

    patch.setattr(shares, "_cipher", faulty_cipher)


@found_by("names_too_few_members")
def few_members_accepted(patch: pytest.MonkeyPatch) -> None:
    agree = CellMember.agree
    patch.setattr(CellMember, "agree", _without_threshold(agree))


@found_by("names_too_few_survivors")
def few_survivors_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellMember, "survive", _without_threshold(CellMember.survive))


@found_by("opens_with_few_stands")
def sums_opened_by_few_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellMember, "reveal", _without_threshold(CellMember.reveal))


@found_by("stands_twice_for_the_same")
def stands_counted_twice(patch: pytest.MonkeyPatch) -> None:
    reveal = CellMember.reveal

    def faulty_reveal(self: CellMember, request: steps.Reveal) -> steps.Revealed:
        distinct = {stand.owner: stand for stand in request.stands}
        with pytest.MonkeyPatch.context() as inner:
            if len(request.stands) >= self._cell.opening_threshold(8):
                inner.setattr(Cell, "opening_threshold", lambda *_: 1)
            return reveal(self, steps.Reveal(tuple(distinct.values())))

    patch.setattr(CellMember, "reveal", faulty_reveal)


@found_by("forges_stands")
def stands_not_verified(patch: pytest.MonkeyPatch) -> None:
    reveal = CellMember.reveal

    def faulty_reveal(self: CellMember, request: steps.Reveal) -> steps.Revealed:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "_verify_signature", lambda _: None)
            return reveal(self, request)

    patch.setattr(CellMember, "reveal", faulty_reveal)


@found_by("stands_of_another_round")
def stand_contents_ignored(patch: pytest.MonkeyPatch) -> None:
    reveal = CellMember.reveal

    def faulty_reveal(self: CellMember, request: steps.Reveal) -> steps.Revealed:
        assert self._secrets is not None
        stand = self._secrets.stand
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(cell_member, "decode_body", lambda *_: stand)
            return reveal(self, request)

    patch.setattr(CellMember, "reveal", faulty_reveal)


@found_by("opens_two_sets")
def survivors_chosen_by_other_members(patch: pytest.MonkeyPatch) -> None:
    """Reveal shares for any set that enough members confirm, whichever set this member confirmed itself."""
    reveal = CellMember.reveal

    def faulty_reveal(self: CellMember, request: steps.Reveal) -> steps.Revealed:
        assert self._secrets is not None
        self._secrets.stand = decode_body(request.stands[0], SurvivorConfirmation)
        return reveal(self, request)

    patch.setattr(CellMember, "reveal", faulty_reveal)


@found_by("copies_a_key")
def masks_not_bound_to_the_pair(patch: pytest.MonkeyPatch) -> None:
    pair_mask = masks.pair_mask

    def faulty_pair_mask(own: Any, other: bytes, h: bytes, pair: tuple[int, int], size: int, width: int) -> Any:
        del pair
        return pair_mask(own, other, h, (0, 0), size, width)

    for module in (masks, cell_member, opening):
        patch.setattr(module, "pair_mask", faulty_pair_mask)
    import tests.cells.attacks

    patch.setattr(tests.cells.attacks, "pair_mask", faulty_pair_mask)


@found_by("unmasks_a_late_member")
def own_masks_missing(patch: pytest.MonkeyPatch) -> None:
    def faulty_own_mask(seed: bytes, h: bytes, size: int, width: int) -> NDArray[np.uint64]:
        del seed, h, width
        return np.zeros(size, dtype=np.uint64)

    for module in (cell_member, opening):
        patch.setattr(module, "own_mask", faulty_own_mask)


@found_by("leaves_a_sum_inexact")
def masks_added_by_both(patch: pytest.MonkeyPatch) -> None:
    agreed_on = masks.pair_mask

    def faulty_pair_mask(own: Any, other: bytes, h: bytes, pair: tuple[int, int], size: int, width: int) -> Any:
        mask = agreed_on(own, other, h, pair, size, width)
        return mask if pair[0] < pair[1] else np.uint64(0) - mask

    patch.setattr(cell_member, "pair_mask", faulty_pair_mask)


@found_by("asks_for_two_vectors")
def two_vectors_for_an_offer(patch: pytest.MonkeyPatch) -> None:
    agree = CellMember.agree

    def faulty_agree(self: CellMember, request: steps.Agree) -> Ready | steps.Unfit:
        assert self._secrets is not None
        self._secrets.h = b""
        return agree(self, request)

    patch.setattr(CellMember, "agree", faulty_agree)
    patch.setattr(
        CellMember, "_keys", lambda self, secrets: self.__dict__.setdefault("kept", secrets.keys) or secrets.keys
    )


@found_by("takes_a_vector_unpaid")
def charged_after_the_answer(patch: pytest.MonkeyPatch) -> None:
    def faulty_mask(self: CellContext, request: steps.Mask) -> steps.Vector | None:
        members, h = self.member.check_ready(request)
        part = self.mechanism.apply(self.raw(self._parse_point(self.member.point), self.records), members, self.noise)
        masked = self.member.mask(part, self.mechanism.width(members))
        try:
            self.ledger.charge(h, self.mechanism.event(members))
        except Exception:  # noqa: BLE001 - that is the bug
            return masked
        return masked

    patch.setattr(CellContext, "_mask", faulty_mask)


@found_by("takes_more_than_is_paid_for")
def spent_budgets_ignored(patch: pytest.MonkeyPatch) -> None:
    def faulty_mask(self: CellContext, request: steps.Mask) -> steps.Vector:
        members, h = self.member.check_ready(request)
        self.ledger.charge(h, self.mechanism.event(members))
        part = self.mechanism.apply(self.raw(self._parse_point(self.member.point), self.records), members, self.noise)
        return self.member.mask(part, self.mechanism.width(members))

    answered = CellContext._dispatch

    def faulty_dispatch(self: CellContext, request: Any) -> Any:
        return (
            self.member.begin(request.slot, request.point)
            if isinstance(request, steps.Begin)
            else answered(self, request)
        )

    patch.setattr(CellContext, "_mask", faulty_mask)
    patch.setattr(CellContext, "_dispatch", faulty_dispatch)


@found_by("measures_the_noise")
def share_of_noise_for_all_members(patch: pytest.MonkeyPatch) -> None:
    """Use σ²/t in place of σ²/(t - f), which would be right without collusion."""

    def faulty_share(self: CellMechanism, members: int) -> int:
        return math.isqrt((self.sigma**2 - 1) // self.cell.opening_threshold(members)) + 1

    event = CellMechanism.event

    def faulty_event(self: CellMechanism, members: int) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.undo()
            inner.setattr(CellMechanism, "share", _share)
            return event(self, members)

    _share = CellMechanism.share
    patch.setattr(CellMechanism, "share", faulty_share)
    patch.setattr(CellMechanism, "event", faulty_event)


@found_by("finds_secrets_on_the_disk")
def unmasked_part_stored(patch: pytest.MonkeyPatch) -> None:
    masked = CellContext._mask

    def faulty_mask(self: CellContext, request: steps.Mask) -> steps.Vector | None:
        apply, made = CellMechanism.apply, []

        def faulty_apply(*arguments: Any) -> NDArray[np.int64]:
            made.append(apply(*arguments))
            return made[0]

        def store_unmasked_part(exponent: int, value: bytes, simulated: bool) -> StoredRelease:
            return StoredRelease(exponent, made[0].astype("<i8").tobytes(), simulated)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CellMechanism, "apply", faulty_apply)
            inner.setattr(cell_context, "StoredRelease", store_unmasked_part)
            return masked(self, request)

    patch.setattr(CellContext, "_mask", faulty_mask)


@found_by("restarts_a_vault")
def keys_derived_from_the_name(patch: pytest.MonkeyPatch) -> None:
    """Derive keys from the member's name, so that a restart finds them again."""
    from hashlib import sha256

    def faulty_random_seed(self: CellMember) -> bytes:
        number = self.__dict__["number"] = self.__dict__.get("number", -1) + 1
        return sha256(f"{self._owner} {number % 3}".encode()).digest()

    patch.setattr(CellMember, "_random_seed", faulty_random_seed)


@found_by("wraps_around")
def too_few_bits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cell_sum, "bytes_per_value", lambda *_: 2)


@found_by("moves_the_sum_by_more_than_the_clip")
def nothing_clipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellMechanism, "squared_clip_norm", None)


@found_by("asks_before_the_vector")
def stands_signed_before_the_vector(patch: pytest.MonkeyPatch) -> None:
    survive = CellMember.survive

    def faulty_survive(self: CellMember, request: steps.Survive) -> SurvivorConfirmation:
        secrets = self._secrets
        assert secrets is not None
        if not secrets.is_masked:
            secrets.is_masked, secrets.members, secrets.h = True, tuple(range(8)), bytes(32)
        return survive(self, request)

    patch.setattr(CellMember, "survive", faulty_survive)


@found_by("hides_a_wrong_seed")
def commitments_not_compared(patch: pytest.MonkeyPatch) -> None:
    class Anything(bytes):
        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = bytes.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    patch.setattr(opening, "commitment", lambda _: Anything())


@found_by("forges_results")
def openings_not_verified(patch: pytest.MonkeyPatch) -> None:
    def faulty_verify_opening(opening: Any, cell: Any, *_: Any) -> VerifiedOpening:
        roster = roster_from_offers(opening.roster)
        graph = neighbourhoods(cell, roster.digest, len(roster))
        h = round_digest(graph, opening.members, opening.roots)
        return VerifiedOpening(opening, roster, graph, h)

    patch.setattr(knowledge, "verify_opening", faulty_verify_opening)
    patch.setattr(knowledge, "check_confirmed", lambda *_: None)


@found_by("forges_results")
def single_answers_believed(patch: pytest.MonkeyPatch) -> None:
    def faulty_find_agreed_knowledge(self: Knowledge, votes: Any) -> Any:
        one = next(iter(votes.values()))
        return decode_body(one.statement, ResultCommitment), self.decode_numerator(one.numerator)

    patch.setattr(Knowledge, "find_agreed_knowledge", faulty_find_agreed_knowledge)


@found_by("passes_on_other_vectors")
def forwarded_vectors_not_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(knowledge, "check_confirmed", lambda *_: None)


@found_by("reports_another_sum")
def secrets_of_openings_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opening, "_find_cheaters", lambda *_: ())


@found_by("sends_another_vector")
def vectors_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gathering, "check_vector", lambda *_: None)


@found_by("reveals_false_shares")
def revealed_shares_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gathering, "find_false_share", lambda *_: None)


@found_by("deals_another_seed")
def lies_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dishonesty, "_strike_off", lambda self, state, *_: state)


@found_by("proposes_many_rounds", "names_two_sets")
def leaders_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StatementCollector, "_compare_statements", staticmethod(lambda leading, *_: LeaderUpdate(leading)))


@found_by("replaces_sealed_shares", "misdirects_shares", "exchanges_shares")
def carriers_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gathering, "is_sealed_by_dealer", lambda *_: True)


@found_by("sends_shares_it_did_not_sign")
def dealers_believed(patch: pytest.MonkeyPatch) -> None:
    def faulty_store_shares(
        self: StatementCollector, leading: LeaderState, roster: Roster, position: int, shared: Shared
    ) -> LeaderUpdate:
        return LeaderUpdate(replace(leading, dealt={**leading.dealt, position: shared}))

    patch.setattr(StatementCollector, "_store_shares", faulty_store_shares)


@found_by("wishes_alone")
def single_wishes_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "current_attempt", lambda wishes, _: max(wishes))


@found_by("starts_apart")
def wishes_of_others_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "current_attempt", lambda wishes, _: next(iter(wishes)))


@found_by("accuses_everybody")
def one_doubt_is_enough(patch: pytest.MonkeyPatch) -> None:
    record_accusation = Dishonesty.record_accusation

    def faulty_record_accusation(self: Dishonesty, state: Any, sender: str, statement: Any) -> Any:
        state = record_accusation(self, state, sender, statement)
        doubt = decode_body(statement, Accusation)
        return self._strike_off(state, doubt.accused, doubt.why, f"reported by {sender}")

    patch.setattr(Dishonesty, "record_accusation", faulty_record_accusation)


@found_by("calls_a_revoked_device")
def revocations_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredRevocations, "__call__", lambda _: frozenset())


@found_by("calls_a_revoked_device")
def expiry_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SignatureVerifier, "admit", lambda self, published, _: self.verify(published))


def _without_threshold(step: Callable[..., Any]) -> Callable[..., Any]:
    def lenient(self: CellMember, request: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Cell, "opening_threshold", lambda *_: 1)
            return step(self, request)

    return lenient
