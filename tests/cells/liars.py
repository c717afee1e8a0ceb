"""Members that lie, and the messages that they make up."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    AnyContent,
    CellMessage,
    Doubted,
    Given,
    Known,
    Result,
    Shared,
    SharesRevealed,
    Survived,
    Vectors,
    Want,
)
from sottovoce.algorithms.cell.public.outbox import queue_sends
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.learning.learners.learner import Effect, Event, Reply, Send, Timer
from sottovoce.privacy.api import CellAnswer, Refused
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.opening import Opening
from sottovoce.privacy.secure_sum.proofs import revealed_digest
from sottovoce.privacy.secure_sum.statements import (
    Accusation,
    Body,
    Deal,
    Lead,
    Masked,
    Offer,
    ResultCommitment,
    RevealCommitment,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    body_bytes,
    decode_body,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.vault import Vault

from tests.cells.fleet import NOWHERE, signed


class Forger:
    """Member that fabricates results and answers, and signs them with its own key.

    Args:
        name: the member's name.
        names: names of all members.
        size: number of coordinates of a sum.
        seed: seed of the forgeries' random generator.
        signed: function that signs a body in the name of a member.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        size: int,
        seed: int,
        signed: Callable[[str, Body], Statement] = signed,
    ) -> None:
        self._name, self._names, self._size, self._random = name, sorted(names), size, random.Random(seed)
        self._signed = signed

    def forge(self, kind: str) -> Result | Known:
        """Make a result or an answer that no honest device could send."""
        numbers = np.array([self._random.randint(-(2**40), 2**40) for _ in range(self._size)])
        return self.known(numbers) if kind == "known" else self._forge_result()

    def known(self, numerator: NDArray[np.int64]) -> Known:
        """Make an answer that only this member has signed."""
        raw = numerator.astype("<i8").tobytes()
        members = self._random.randint(1, len(self._names))
        return Known(self._signed(self._name, ResultCommitment(1, members, sha256(raw).digest())), raw)

    def vectors(self, want: Want, size: int) -> Vectors:
        """Make up masked vectors, in the names of the requested members."""
        raw = bytes([self._random.randrange(256)]) * size
        body = Masked(want.round, sha256(raw).digest())
        return Vectors(
            want.round,
            tuple(
                Given(raw, replace(self._signed(self._name, body), owner=self._names[index])) for index in want.places
            ),
        )

    def _forge_result(self) -> Result:
        """Make an opening with partly real offers and signatures: the forger's own, and copies of its stand."""
        names = self._names
        bodies = {name: Offer(0, NOWHERE, *(self._random.randbytes(32) for _ in range(3))) for name in names}
        offers = [self._signed(name if self._random.random() < 0.9 else self._name, bodies[name]) for name in names]
        statements = tuple(replace(one, owner=name) for one, name in zip(offers, names, strict=True))
        roster, members = roster_from_offers(statements), tuple(range(len(names)))
        digests = tuple(self._random.randbytes(32) for _ in members)
        stand = SurvivorConfirmation(round_digest(roster.digest, members, digests), members)
        mine = self._signed(self._name, stand)
        owners = [self._name] + [name for name in names if name != self._name]
        stands = tuple(replace(mine, owner=owner) for owner in owners[: self._random.randint(1, len(owners))])
        seeds = tuple(self._random.randbytes(32) for _ in members)
        return Result(Opening(statements, members, digests, stands, seeds, ()))


class Liar(Cells):
    """Member that sends messages other than those of the shipped code."""

    def on(self, state: CellState, event: Event, now: float) -> tuple[CellState, list[Effect]]:
        """Handle an event as the shipped code does, then falsify the messages."""
        return self._falsify(*super().on(state, event, now))

    def on_step_answer(
        self, state: CellState, content: CellAnswer | Refused, now: float
    ) -> tuple[CellState, list[Effect]]:
        """Handle the vault's answer as the shipped code does, then falsify the messages."""
        return self._falsify(*super().on_step_answer(state, content, now))

    def _falsify(self, state: CellState, effects: list[Effect]) -> tuple[CellState, list[Effect]]:
        falsified: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send | Reply) and isinstance(effect.message, CellMessage):
                recipient = effect.recipient if isinstance(effect, Send) else ""
                content = self.lie(state, effect.message.content, recipient)
                if content is None:
                    continue
                effect = replace(effect, message=CellMessage(content))
            falsified.append(effect)
        return state, falsified

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Return the message to send in place of this message; None for no message."""
        raise NotImplementedError


class ForgesResults(Liar):
    """Liar that sends every member a fabricated opened sum and answer on every beat."""

    def on(self, state: CellState, event: Event, now: float) -> tuple[CellState, list[Effect]]:
        """Act as the shipped code does, and also send forged messages on a beat."""
        state, effects = super().on(state, event, now)
        if isinstance(event, Timer) and state.cycle <= 12:
            forger = self._forger(state, seed=state.cycle)
            content = forger.forge("result" if state.cycle % 2 else "known")
            state = replace(state, outbox=dict.fromkeys(state.peers, ()))
            effects = [*effects, *(Send(peer, CellMessage(content)) for peer in state.peers)]
        return state, effects

    def _forger(self, state: CellState, seed: int) -> Forger:
        return Forger(self._owner, [*state.peers, self._owner], self.consumer.size, seed)

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Return the message unchanged."""
        return content

    def _handle_message(self, state: CellState, sender: str, message: CellMessage) -> tuple[CellState, list[Effect]]:
        """Answer a request for masked vectors with forged ones."""
        if isinstance(message.content, Want):
            forger = self._forger(state, seed=0)
            width = self.consumer.bytes_per_element(len(state.peers) + 1)
            return state, [Reply(CellMessage(forger.vectors(message.content, self.consumer.size * width)))]
        return super()._handle_message(state, sender, message)


class DealsWorthlessShares(Liar):
    """Liar that seals noise for every member."""

    target_count = 20

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the sealed shares by zeros, which do not match the commitment."""
        if not isinstance(content, Shared):
            return content
        sealed = tuple(
            share and (bytes(len(share)) if index < self.target_count else share)
            for index, share in enumerate(content.sealed)
        )
        return structs.replace(content, sealed=sealed)


class DealsTwoWorthlessShares(DealsWorthlessShares):
    """Liar that seals noise for two members."""

    target_count = 2


class ProposesManyRounds(Liar):
    """Liar that proposes a different round to each member, as a leader."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Leave one member out of the proposal, a different one for each recipient."""
        if not isinstance(content, Agreed):
            return content
        leading = state.leading[state.slot]
        assert leading.roster is not None
        own = leading.roster.owners.index(recipient)
        omitted = (own + 1) % len(content.members)
        kept_indices = [index for index in range(len(content.members)) if index != omitted]
        members = tuple(content.members[index] for index in kept_indices)
        deals = tuple(content.deals[index] for index in kept_indices)
        h = round_digest(leading.roster.digest, members, [decode_body(deal, Deal).root for deal in deals])
        sealed, paths = (tuple(column[index] for index in kept_indices) for column in (content.sealed, content.paths))
        return Agreed(members, sealed, paths, deals, self._sign_without_certificate(Lead(leading.roster.digest, h)))


class RevealsFalseShares(Liar):
    """Liar that reveals shares other than those dealt to it."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the first revealed share."""
        if not isinstance(content, SharesRevealed):
            return content
        first = structs.replace(content.revealed.seeds[0], share=bytes(33))
        revealed = steps.Revealed((first, *content.revealed.seeds[1:]), content.revealed.mask_keys)
        return SharesRevealed(
            revealed,
            self._sign_without_certificate(
                RevealCommitment(state.round, self._position(state), revealed_digest(revealed))
            ),
        )


class SendsAnotherVector(Liar):
    """Liar that sends a masked vector whose hash differs from the signed one."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the vector by zeros."""
        return structs.replace(content, vector=bytes(len(content.vector))) if isinstance(content, Given) else content


class ReportsAnotherSum(Liar):
    """Liar that opens the sum, as a leader, with a wrong seed for one member, which would give another sum."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the first seed of the opening."""
        if not isinstance(content, Result):
            return content
        return Result(structs.replace(content.opening, seeds=(bytes(32), *content.opening.seeds[1:])))


class PassesOnOtherVectors(Liar):
    """Liar that opens the sum, as a leader, and forwards vectors other than those that the members signed."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the vectors by zeros."""
        if not isinstance(content, Vectors):
            return content
        given = tuple(structs.replace(one, vector=bytes(len(one.vector))) for one in content.given)
        return structs.replace(content, given=given)


class NamesTwoSets(Liar):
    """Liar that names different survivors, as a leader, to each half of the members."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Omit the last survivor, for half of the members."""
        if not isinstance(content, Survived) or recipient > f"member-{len(state.peers) // 2:02d}":
            return content
        named = decode_body(content.statement, SurvivorProposal)
        return Survived(self._sign_without_certificate(SurvivorProposal(named.round, named.survivors[:-1])))


class TellsFew(Liar):
    """Liar that announces the opened sum, as a leader, to only one member."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Withhold the result from everyone but one member."""
        return None if isinstance(content, Result) and recipient != "member-00" else content


class AccusesEverybody(Liar):
    """Liar that accuses every other member of lying."""

    def on(self, state: CellState, event: Event, now: float) -> tuple[CellState, list[Effect]]:
        """Act as the shipped code does, and also accuse one more member on each beat."""
        state, effects = super().on(state, event, now)
        if isinstance(event, Timer) and state.cycle <= len(state.peers):
            accused = state.peers[state.cycle - 1]
            message = CellMessage(Doubted(self._sign(body_bytes(Accusation(accused, "lied")))))
            state, more = queue_sends((state, [Send(peer, message) for peer in state.peers if peer != accused]))
            effects = [*effects, *more]
        return state, effects

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Return the message unchanged."""
        return content


class DealsAnotherSeed(Liar):
    """Liar that deals and commits to shares of a seed other than offered: undetectable until the sum is opened."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Return the message unchanged: the world has replaced the vault."""
        return content


LIARS: dict[str, type[Liar]] = {
    kind.__name__: kind
    for kind in (
        ForgesResults,
        DealsWorthlessShares,
        DealsTwoWorthlessShares,
        DealsAnotherSeed,
        ProposesManyRounds,
        RevealsFalseShares,
        SendsAnotherVector,
        ReportsAnotherSum,
        PassesOnOtherVectors,
        NamesTwoSets,
        TellsFew,
        AccusesEverybody,
    )
}
OF_LEADERS = ("ProposesManyRounds", "ReportsAnotherSum", "PassesOnOtherVectors", "NamesTwoSets")
"""Kinds of liars whose lies are detectable only if they lead."""
OF_MEMBERS = ("DealsWorthlessShares", "DealsTwoWorthlessShares", "RevealsFalseShares")
"""Kinds of liars whose lies are detectable only if another member leads."""
SILENT = ("TellsFew",)
"""Kinds of liars whose lies are never detectable."""


def with_another_seed(vault: Vault) -> Vault:
    """Return a vault that deals shares of zeros for its seed."""
    assert vault._cell is not None
    member = vault._cell.member
    join = member.join

    def joined(request: steps.Join) -> steps.Sealed:
        secrets = member._secrets
        assert secrets is not None
        assert secrets.keys is not None
        secrets.keys = replace(secrets.keys, seed=bytes(32))
        return join(request)

    member.join = joined  # type: ignore[method-assign]
    return vault
