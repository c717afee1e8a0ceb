"""Members that lie, and the messages that they make up."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import cast

import numpy as np
from msgspec import Struct, structs
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
    RosterProposal,
    Shared,
    SharesRevealed,
    Survived,
    SurvivorAck,
    Vectors,
    Want,
    Wish,
)
from sottovoce.algorithms.cell.public.outbox import queue_sends
from sottovoce.algorithms.cell.public.proofs import revealed_digest
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.learning.learners.learner import Effect, Event, Reply, Send, Timer
from sottovoce.privacy.api import CellAnswer, Refused
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.masks import own_mask, pack_values
from sottovoce.privacy.secure_sum.neighbourhoods import neighbourhoods
from sottovoce.privacy.secure_sum.opening import Opening
from sottovoce.privacy.secure_sum.statements import (
    Accusation,
    Body,
    Lead,
    Masked,
    Offer,
    ResultCommitment,
    RevealCommitment,
    Signatures,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    body_bytes,
    decode_any_body,
    decode_body,
    roster_from_offers,
    round_digest,
    vectors_digest,
)
from sottovoce.privacy.vault import Vault

from tests.cells.fleet import CELL, NOWHERE, signed


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
        """Make up masked vectors, in the names of the requested members, whose sum honest members could have made."""
        width = size // self._size
        masks = (own_mask(_forged_seed(place), want.round, self._size, width) for place in want.places)
        return Vectors(want.round, want.places, tuple(pack_values(mask, width) for mask in masks))

    def _forge_result(self) -> Result:
        """Make an opening with partly real offers and signatures: the forger's own, and copies of its stand."""
        names = self._names
        bodies = {name: Offer(0, NOWHERE, *(self._random.randbytes(32) for _ in range(3))) for name in names}
        offers = [self._signed(name if self._random.random() < 0.9 else self._name, bodies[name]) for name in names]
        statements = tuple(replace(one, owner=name) for one, name in zip(offers, names, strict=True))
        roster, members = roster_from_offers(statements), tuple(range(len(names)))
        digests = tuple(self._random.randbytes(32) for _ in members)
        graph = neighbourhoods(CELL, roster.digest, len(roster))
        stand = SurvivorConfirmation(round_digest(graph, members, digests), members, vectors_digest(digests))
        mine, own = self._signed(self._name, stand), names.index(self._name)
        signers = [own, *(place for place in members if place != own)][: self._random.randint(1, len(names))]
        stands = Signatures(tuple(signers), (mine.signature,) * len(signers))
        seeds = tuple(map(_forged_seed, members))
        return Result(Opening(statements, members, digests, members, digests, stands, seeds, ()))


def _forged_seed(place: int) -> bytes:
    return place.to_bytes(32, "big")


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
        roots, signatures = (
            tuple(column[index] for index in kept_indices) for column in (content.roots, content.signatures)
        )
        graph = leading.graph(self._cell)
        h = round_digest(graph, members, roots)
        dealers = graph.present_holders(own, content.members)
        kept_ranks = [rank for rank, dealer in enumerate(dealers) if dealer in members]
        sealed, pairs, paths = (
            tuple(column[rank] for rank in kept_ranks) for column in (content.sealed, content.pairs, content.paths)
        )
        lead = self._sign_without_certificate(Lead(leading.roster.digest, h))
        return Agreed(members, sealed, pairs, paths, roots, signatures, lead)


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
        opening = structs.replace(content.opening, seeds=(bytes(32), *content.opening.seeds[1:]))
        return structs.replace(content, opening=opening)


class PassesOnOtherVectors(Liar):
    """Liar that opens the sum, as a leader, and forwards vectors other than those that the members signed."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the vectors by zeros."""
        if not isinstance(content, Vectors):
            return content
        return structs.replace(content, vectors=tuple(bytes(len(vector)) for vector in content.vectors))


class NamesTwoSets(Liar):
    """Liar that names different survivors, as a leader, to each half of the members."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Omit the last survivor, for half of the members."""
        if not isinstance(content, Survived) or recipient not in sorted(state.peers)[: len(state.peers) // 2 + 1]:
            return content
        named, vectors = decode_body(content.statement, SurvivorProposal), content.vectors[:-1]
        proposal = SurvivorProposal(named.round, named.survivors[:-1], vectors_digest(vectors))
        return Survived(self._sign_without_certificate(proposal), vectors, content.signatures[:-1])


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


class ReplacesSealedShares(Liar):
    """Liar that replaces, as a leader, the shares that three members sealed, so that they seem to have sealed noise."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Replace the first three other dealers' shares by zeros."""
        if not isinstance(content, Agreed) or recipient == self._owner:
            return content
        victims = [index for index, raw in enumerate(content.sealed) if raw][:3]
        sealed = tuple(bytes(len(raw)) if index in victims else raw for index, raw in enumerate(content.sealed))
        return structs.replace(content, sealed=sealed)


class MisdirectsShares(Liar):
    """Liar that sends, as a leader, to each member what is meant for another."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Send the message that was meant for the recipient of the previous such message."""
        if not isinstance(content, Agreed):
            return content
        self._previous, previous = content, getattr(self, "_previous", content)
        return previous


class ExchangesShares(Liar):
    """Liar that passes on, as a leader, one dealer's shares as another's."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Reverse the order of the sealed shares, with their paths."""
        if not isinstance(content, Agreed):
            return content
        return structs.replace(
            content, sealed=content.sealed[::-1], pairs=content.pairs[::-1], paths=content.paths[::-1]
        )


class SendsSharesItDidNotSign(Liar):
    """Liar that exchanges sealed shares after it has signed them, so that its leader seems to lie."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Exchange the last two sealed shares."""
        if not isinstance(content, Shared):
            return content
        return structs.replace(content, sealed=(*content.sealed[:-2], *content.sealed[:-3:-1]))


class SignsTwoVectors(Liar):
    """Liar that sends its deputies another masked vector than its leader, signed as well, so that sums differ."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Sign and send zeros to anyone but the leader."""
        if not isinstance(content, Given) or recipient == state.leader:
            return content
        raw = bytes(len(content.vector))
        masked = Masked(decode_body(content.statement, Masked).round, sha256(raw).digest())
        return Given(raw, self._sign_without_certificate(masked))


class NamesVectorsNobodySigned(Liar):
    """Liar that names, as a leader, another vector for a member than the one that the member signed."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Sign a digest that does not belong to the first survivor's vector."""
        if not isinstance(content, Survived):
            return content
        named, vectors = decode_body(content.statement, SurvivorProposal), (bytes(32), *content.vectors[1:])
        proposal = structs.replace(named, vectors=vectors_digest(vectors))
        return Survived(self._sign_without_certificate(proposal), vectors, content.signatures)


class HidesItsVector(Liar):
    """Liar that sends its vector to nobody; as the leader, it still counts itself among the survivors."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Withhold the liar's own vector."""
        if isinstance(content, Vectors) and state.opened is not None:
            own = state.opened.verified.roster.owners.index(self._owner)
            kept = {place: raw for place, raw in zip(content.places, content.vectors, strict=True) if place != own}
            return Vectors(content.round, tuple(kept), tuple(kept.values()))
        return None if isinstance(content, Given) else content


class NamesFewSurvivors(Liar):
    """Liar that names, as a leader, as few survivors as possible, itself among them, and confirms none."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Name itself and the first other survivors, up to the threshold."""
        if isinstance(content, SurvivorAck | SharesRevealed):
            return None
        if not isinstance(content, Survived) or state.roster is None:
            return content
        named, own = decode_body(content.statement, SurvivorProposal), state.roster.owners.index(self._owner)
        least = self._cell.opening_threshold(len(state.roster))
        others = [survivor for survivor in named.survivors if survivor != own][: least - 1]
        kept = tuple(sorted({own, *others}))
        vectors, signatures = (
            tuple(column[named.survivors.index(survivor)] for survivor in kept)
            for column in (content.vectors, content.signatures)
        )
        proposal = SurvivorProposal(named.round, kept, vectors_digest(vectors))
        return Survived(self._sign_without_certificate(proposal), vectors, signatures)


class WithholdsTheRound(Liar):
    """Liar that proposes a roster, as a leader, and then stays silent."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Withhold the round."""
        return None if isinstance(content, Agreed) else content


class ForgesRosters(Liar):
    """Liar that, as the leader, proposes rosters with an offer that is not signed."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Alter the signature of the first offer that is not the recipient's."""
        if not isinstance(content, RosterProposal):
            return content
        victim = next(index for index, offer in enumerate(content.roster) if offer.owner != recipient)
        forged = replace(content.roster[victim], signature=bytes(32))
        return RosterProposal.of((*content.roster[:victim], forged, *content.roster[victim + 1 :]))


class WishesFarAhead(Liar):
    """Liar that wishes for a later attempt on every beat, and tells each member another one."""

    def on(self, state: CellState, event: Event, now: float) -> tuple[CellState, list[Effect]]:
        """Act as the shipped code does, and also send wishes on a beat."""
        state, effects = super().on(state, event, now)
        if isinstance(event, Timer):
            wishes = [Send(peer, CellMessage(Wish(0, 1000 * state.cycle + i))) for i, peer in enumerate(state.peers)]
            state, more = queue_sends((state, list(wishes)))
            effects = [*effects, *more]
        return state, effects

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Return the message unchanged."""
        return content


class SupportsContradictions(AccusesEverybody):
    """Liar that makes members open different sums, and accuses everybody whose sum differs from a member's own."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent:
        """Sign and send another masked vector to anyone but the leader."""
        return SignsTwoVectors.lie(self, state, content, recipient)  # type: ignore[arg-type]


class RandomLiar(Liar):
    """Liar whose lies are random.

    Attributes:
        seed: seed of its choices.
    """

    seed = 0

    @cached_property
    def _fate(self) -> random.Random:
        return random.Random(f"{type(self).__name__} {self.seed}")

    @cached_property
    def _share(self) -> float:
        return self._fate.choice((0.02, 0.1, 0.3, 0.8))

    @cached_property
    def _earlier(self) -> list[AnyContent]:
        return []


class MixesLies(RandomLiar):
    """Liar that tells, with each message, any of the lies of the other kinds."""

    target_count = 3  # of DealsWorthlessShares

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Tell a random lie with some probability."""
        if self._fate.random() > self._share:
            return content
        return self._fate.choice(LIES_IN_MESSAGES)(self, state, content, recipient)


class FuzzesMessages(RandomLiar):
    """Liar that drops, alters and misdirects its messages at random, and signs what it alters in its own statements."""

    def lie(self, state: CellState, content: AnyContent, recipient: str) -> AnyContent | None:
        """Drop, alter or exchange the message with some probability."""
        fate = self._fate
        self._earlier.append(content)
        if fate.random() > self._share:
            return content
        match fate.randrange(4):
            case 0:
                return None
            case 1:
                return fate.choice([one for one in self._earlier if type(one) is type(content)])
            case _:
                return cast(AnyContent, self._altered(content, fate))

    def _altered(self, value: object, fate: random.Random) -> object:
        """Return a value of the same type with one difference, whose statements by this device are signed again."""
        match value:
            case Statement():
                if value.owner != self._owner or fate.random() < 0.2:
                    return replace(value, signature=bytes(32))
                body = self._altered(decode_any_body(value), fate)
                return replace(self._sign(body_bytes(body)), credential=value.credential)  # type: ignore[arg-type]
            case Struct():
                fields = structs.fields(value)
                chosen = fate.choice(fields).name if fields else None
                if chosen is None:
                    return value
                return structs.replace(value, **{chosen: self._altered(getattr(value, chosen), fate)})
            case bytes() if value:
                place = fate.randrange(len(value))
                return fate.choice((bytes(len(value)), value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]))
            case tuple() if value:
                place = fate.randrange(len(value))
                changed = (*value[:place], self._altered(value[place], fate), *value[place + 1 :])
                return fate.choice((changed, changed, value[:-1], value[::-1], (*value, value[-1])))
            case int():
                return fate.choice((0, value + 1, max(0, value - 1)))
            case _:
                return value


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
        ReplacesSealedShares,
        MisdirectsShares,
        ExchangesShares,
        SendsSharesItDidNotSign,
        SignsTwoVectors,
        NamesVectorsNobodySigned,
        HidesItsVector,
        NamesFewSurvivors,
        WithholdsTheRound,
        ForgesRosters,
        WishesFarAhead,
        SupportsContradictions,
        FuzzesMessages,
        MixesLies,
    )
}
LIES_IN_MESSAGES: Sequence[Callable[..., AnyContent | None]] = [
    kind.lie for name, kind in LIARS.items() if name not in ("FuzzesMessages", "MixesLies", "MisdirectsShares")
]

NAMED_BY = {
    **dict.fromkeys(
        (
            "ProposesManyRounds",
            "ReportsAnotherSum",
            "PassesOnOtherVectors",
            "NamesTwoSets",
            "ReplacesSealedShares",
            "MisdirectsShares",
            "ExchangesShares",
            "NamesVectorsNobodySigned",
        ),
        (0,),
    ),
    **dict.fromkeys(
        ("DealsWorthlessShares", "DealsTwoWorthlessShares", "RevealsFalseShares", "SendsSharesItDidNotSign"), (1, -1)
    ),
    "SignsTwoVectors": (-1,),
}
"""Places in the order of leaders from which liars of some kinds can be detected; from all, if the kind is not here.

Nobody else sees what a leader sends to itself, or what a leader and its first deputy send to each other.
"""
UNNAMED = (
    "TellsFew",
    "HidesItsVector",
    "NamesFewSurvivors",
    "WithholdsTheRound",
    "ForgesRosters",
    "WishesFarAhead",
    "FuzzesMessages",
    "MixesLies",
)
"""Kinds of liars that are never detectable, or not always: an honest device may lose messages, too."""


def seeded(kind: type[Liar], seed: int) -> type[Liar]:
    """Return a kind of liar whose random choices depend on a seed."""
    return type(kind.__name__, (kind,), {"seed": seed}) if issubclass(kind, RandomLiar) else kind


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
