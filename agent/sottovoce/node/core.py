"""The agent's core, without any I/O: a learner, its durable state, and links that apply each message exactly once.

A message from the learner to another device is called a share.

Links use a stop-and-wait protocol: at most one share per peer is in transit, so the outbox is bounded by the number of
peers. The sender makes a message durable before sending it, and the recipient makes it durable before confirming it. A
confirmation or an applied release is only written with the next commit, because repeating either after a crash changes
nothing. The same applies to taking back a share that its recipient has permanently and durably refused. If a learner
repeatedly sends its whole state (RestatingLearner), only the sequence numbers of its messages are durable before they
are sent, and these are reserved in blocks. Its state is written when the learner has something to lose in a crash. The
asyncio agent and the simulator both use the class Core.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import (
    Ask,
    CrashLoss,
    Delivered,
    Effect,
    Event,
    FeedFollower,
    Forget,
    HandingOffLearner,
    Learner,
    Message,
    PeersChanged,
    Progress,
    PublishModel,
    PublishSum,
    Received,
    Reply,
    RestatingLearner,
    Returned,
    SecureSumLearner,
    Send,
    SetTimer,
    SettlingLearner,
    SettlingState,
    Shelve,
    TakePart,
    Timer,
)
from sottovoce.node.links import NewestMessage, Outgoing, Parcel, Store
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, Query, Refused

CALM_CYCLES = 10
"""Number of cycles without news after which the pause starts to double every cycle."""

CHANGE_THRESHOLD = 1e-3
"""Minimum model change since the last news, as a fraction of the largest parameter, that counts as news."""

_MAX_DOUBLINGS = 60
_MAX_REPLY_VALUES = 2**20
"""Maximum total number of values in stored replies. A reply is kept until the peer's next message, in case of loss."""

_RESERVED_NUMBERS = 256
"""How many sequence numbers a restating learner reserves for a peer in one commit; a crash leaves the rest unused."""

_STORE_SECONDS = 60.0
"""Time within which a restating learner stores what it could recover from peers or the ledger, in seconds."""


class AdaptiveInterval:
    """Adaptive message interval for one device that has nothing left to learn: it grows until there is news.

    The interval adapts only for learners that report their belief, and only after they have finished their private
    steps. It depends on that belief alone, which is computed from released values, so a device's sending rate reveals
    nothing about its records. A restart counts as news and therefore resets the interval.

    Args:
        longest_pause: longest pause between two cycles, in seconds; a longer pause requested by the learner is kept.
    """

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = longest_pause
        self._last_news: SettlingState | None = None
        self._calm_cycles = 0
        self._period = 0.0
        self._timer = ""

    def reschedule(self, belief: SettlingState | None, event: Event, effects: list[Effect], now: float) -> list[Effect]:
        """Return the effects, with the timer for the next cycle adjusted to the current interval.

        Args:
            belief: the learner's belief after the event; None while it still has private steps to take.
            event: the event being handled.
            effects: effects requested by the learner.
            now: current time, in seconds.
        """
        is_news, is_slow = self._is_news(belief), self._calm_cycles > CALM_CYCLES
        if is_news:
            self._last_news, self._calm_cycles = belief, 0
        match event:
            case Timer():
                self._calm_cycles += not is_news
                return [self._postpone(effect, now) if isinstance(effect, SetTimer) else effect for effect in effects]
            case Received() if is_news and is_slow:
                return [*effects, SetTimer(self._timer, now + self._period)]
        return effects

    def _is_news(self, belief: SettlingState | None) -> bool:
        last_news = self._last_news
        if belief is None or last_news is None or belief.extra != last_news.extra:
            return True
        change, largest = np.abs(belief.model - last_news.model), np.abs(last_news.model)
        return bool(change.max(initial=0.0) > CHANGE_THRESHOLD * largest.max(initial=0.0))

    def _postpone(self, timer: SetTimer, now: float) -> SetTimer:
        self._timer, self._period = timer.name, timer.at - now
        extended_period = self._period * 2.0 ** min(max(0, self._calm_cycles - CALM_CYCLES), _MAX_DOUBLINGS)
        return SetTimer(timer.name, now + max(self._period, min(extended_period, self._longest_pause)))


@dataclass(frozen=True, slots=True)
class Transmit:
    """An instruction to send this message repeatedly until it is confirmed."""

    outgoing: Outgoing


Action = Transmit | Reply | Forget | Ask | TakePart | SetTimer | PublishModel | PublishSum | Shelve


class Core:
    """Protocol logic of one agent.

    Args:
        learner: the public half of the algorithm.
        store: store for the state that survives a restart.
        seal: returns the sealed parcel for (recipient, sequence, message).
        open_parcel: returns the message from one of this device's own parcels.
        upgrade: converts an outgoing share to the current wire format.
        interval: message interval for a device that has nothing left to learn; None to always use the learner's own.
    """

    def __init__(
        self,
        *,
        learner: Learner[Any],
        store: Store,
        seal: Callable[[str, int, Message], Parcel],
        open_parcel: Callable[[Parcel], Message] = lambda parcel: cast(Message, parcel),
        upgrade: Callable[[Outgoing], Outgoing] = lambda outgoing: outgoing,
        interval: AdaptiveInterval | None = None,
    ) -> None:
        saved = store.load()
        self._interval = interval
        self._settling_learner = learner if isinstance(learner, SettlingLearner) else None
        self._restating_learner = learner if isinstance(learner, RestatingLearner) else None
        self._learner = learner
        self._store = store
        self._seal = seal
        self._open_parcel = open_parcel
        restates = self._restating_learner is not None
        pending = [outgoing for outgoing in saved.outbox if outgoing.parcel and not restates]
        self._outbox = {outgoing.recipient: upgrade(outgoing) for outgoing in pending}
        self._state = learner.restore(saved.state, frozenset(self._outbox))
        self._stored_state, self._unstored_since = self._state, math.inf
        self._sequences = dict(saved.sequences)
        self._reserved_sequences = dict(saved.sequences) if restates else {}
        self._seen = dict(saved.seen)
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._confirmed_recipients = {
            outgoing.recipient for outgoing in saved.outbox if outgoing.recipient not in self._outbox
        }

    @property
    def state(self) -> Any:
        """The learner's current state."""
        return self._state

    @property
    def progress(self) -> Progress:
        """The learner's progress."""
        return self._learner.progress(self._state)

    @property
    def outbox(self) -> tuple[Outgoing, ...]:
        """The shares that have not been confirmed yet."""
        return tuple(self._outbox.values())

    def start(self, peers: tuple[str, ...], now: float) -> list[Action]:
        """Start or resume the learner with these peers; messages that were in transit are resent byte for byte."""
        self._state, effects = self._learner.start(self._state, now)
        retransmissions = [Transmit(outgoing) for outgoing in self._outbox.values()]
        return [*retransmissions, *self._drop_sends(effects), *self.replace_peers(peers, now)]

    def replace_peers(self, peers: tuple[str, ...], now: float) -> list[Action]:
        """Replace the peer list and return the resulting actions."""
        return self._apply(PeersChanged(peers), now)

    @property
    def requires_hand_off(self) -> bool:
        """Whether a device with this learner must hand over a part of its state before it leaves."""
        return isinstance(self._learner, HandingOffLearner)

    @property
    def has_part_to_hand_off(self) -> bool:
        """Whether this device still has state that it must hand over before it leaves."""
        return isinstance(self._learner, HandingOffLearner) and self._learner.holds(self._state)

    def hand_off(self, successor: str) -> list[Action]:
        """Hand state over to a peer, unless that peer has yet to confirm an earlier share; see HandingOffLearner."""
        if not isinstance(self._learner, HandingOffLearner) or successor in self._outbox:
            return []
        return self._apply_step(self._learner.hand_off(self._state, successor), None)

    def fire(self, timer: str, now: float) -> list[Action]:
        """Handle an expired timer; on return, everything is durable that a crash must not lose."""
        actions = self._apply(Timer(timer), now)
        loss = self._crash_loss(self._state)
        if loss is not CrashLoss.NOTHING:
            self._unstored_since = min(self._unstored_since, now)
        if loss is CrashLoss.LASTING or now - self._unstored_since >= _STORE_SECONDS:
            self._commit(self._state, [], None)
        return actions

    def _crash_loss(self, state: Any) -> CrashLoss:
        """Return what a crash would lose that the last commit does not contain."""
        learner = self._restating_learner
        if learner is None or state is self._stored_state:
            return CrashLoss.NOTHING
        return learner.crash_loss(self._stored_state, state)

    def end_windows(self, window: int, now: float) -> list[Action]:
        """Tell a learner that follows a feed that all windows up to and including this one have ended."""
        if not isinstance(self._learner, FeedFollower):
            return []
        return self._apply_step(self._learner.on_window_ended(self._state, window, now), None)

    def apply_query_answer(self, answer: Answer, now: float) -> list[Action]:
        """Apply the vault's answer to a query."""
        return self._apply(answer, now)

    def apply_answer(self, query: Query | CellQuery, answer: Answer | CellAnswer, now: float) -> list[Action]:
        """Apply the vault's answer to a query or to a step of a secure sum."""
        if isinstance(query, CellQuery):
            return self.apply_cell_answer(cast(CellAnswer | Refused, answer), now)
        return self.apply_query_answer(cast(Answer, answer), now)

    def apply_cell_answer(self, answer: CellAnswer | Refused, now: float) -> list[Action]:
        """Apply the vault's answer to a step of a secure sum."""
        if not isinstance(self._learner, SecureSumLearner):
            return []
        return self._apply_step(self._learner.on_step_answer(self._state, answer, now), None)

    def receive(
        self, sender: str, incarnation: int, sequence: int, message: Message, now: float
    ) -> tuple[bool, list[Action]]:
        """Apply a message from an authenticated sender, unless it has already been applied.

        Returns:
            whether the message is a duplicate, and the resulting actions. For a duplicate of the sender's newest
            message, the only action is its original reply, if that is still stored.

        Raises:
            MessageRefused: if the message is from an earlier incarnation of its sender, or does not fit the learner;
                nothing has changed.
        """
        self._check_incarnation(sender, incarnation)
        if self.was_applied(sender, incarnation, sequence):
            newest = self._seen[sender].sequence == sequence
            return True, [self._replies[sender]] if newest and sender in self._replies else []
        actions = self._apply(Received(sender, message), now, (sender, NewestMessage(incarnation, sequence)))
        self._replies.pop(sender, None)
        if (reply := next((action for action in actions if isinstance(action, Reply)), None)) is not None:
            self._replies[sender] = reply
        while (
            len(self._replies) > 1
            and sum(stored_reply.message.value_count for stored_reply in self._replies.values()) > _MAX_REPLY_VALUES
        ):
            self._replies.popitem(last=False)
        return False, actions

    def _check_incarnation(self, sender: str, incarnation: int) -> None:
        newest = self._seen.get(sender)
        if newest is not None and incarnation < newest.incarnation:
            raise MessageRefused(
                "incarnation",
                f"{sender} sent a message from incarnation {incarnation}, but has already reached incarnation "
                f"{newest.incarnation}: an old message was replayed, or the sender was restored from a backup",
            )

    def was_applied(self, sender: str, incarnation: int, sequence: int) -> bool:
        """Return whether a message has already been applied or permanently refused."""
        newest = self._seen.get(sender)
        return newest is not None and incarnation == newest.incarnation and sequence <= newest.sequence

    def refusal_reason(self, sender: str, incarnation: int, sequence: int) -> str:
        """Return why a message was permanently refused, or an empty string if it was not refused."""
        newest = self._seen.get(sender)
        return newest.refusal if newest is not None and self.was_applied(sender, incarnation, sequence) else ""

    def refuse(self, sender: str, incarnation: int, sequence: int, reason: str) -> None:
        """Permanently refuse a message that has not been applied; its sender then takes the content back.

        The refusal is durable on return.

        Raises:
            MessageRefused: if the message is from an earlier incarnation of its sender; nothing has changed.
        """
        self._check_incarnation(sender, incarnation)
        self._commit(self._state, [], (sender, NewestMessage(incarnation, sequence, reason)))

    def takes_reply(self, kind: str) -> bool:
        """Return whether the learner uses replies of this kind."""
        return kind == getattr(self._learner, "reply_kind", None)

    def is_unconfirmed(self, recipient: str, sequence: int) -> bool:
        """Return whether the share with this sequence number is still unconfirmed."""
        pending = self._outbox.get(recipient)
        return pending is not None and pending.sequence == sequence

    def confirm(self, recipient: str, sequence: int, now: float, reply: Message | None = None) -> list[Action]:
        """Process a recipient's confirmation that a share is durable, and the reply that may come with it.

        Raises:
            MessageRefused: if the reply does not fit the learner; nothing has changed.
        """
        if not self.is_unconfirmed(recipient, sequence):
            return []
        outgoing = self._outbox.pop(recipient)
        self._confirmed_recipients.add(recipient)
        try:
            return self._apply(Delivered(recipient, reply), now)
        except MessageRefused:
            self._confirmed_recipients.remove(recipient)
            self._outbox[recipient] = outgoing
            raise

    def take_back(self, recipient: str, sequence: int, now: float) -> list[Action]:
        """Return the content of a share to the learner after its recipient has permanently refused it."""
        if not self.is_unconfirmed(recipient, sequence):
            return []
        message = self._open_parcel(self._outbox.pop(recipient).parcel)
        self._confirmed_recipients.add(recipient)
        return self._apply(Returned(recipient, message), now)

    def flush(self) -> None:
        """Make all state durable before a clean stop."""
        self._commit(self._state, [], None)

    def _apply(self, event: Event, now: float, received: tuple[str, NewestMessage] | None = None) -> list[Action]:
        state, effects = self._learner.on(self._state, event, now)
        if self._interval is not None and self._settling_learner is not None:
            effects = self._interval.reschedule(self._settling_learner.belief(state), event, effects, now)
        return self._apply_step((state, effects), received)

    def _apply_step(self, step: tuple[Any, list[Effect]], received: tuple[str, NewestMessage] | None) -> list[Action]:
        state, effects = step
        forgotten_recipients = [effect.recipient for effect in effects if isinstance(effect, Forget)]
        for recipient in forgotten_recipients:
            if self._outbox.pop(recipient, None) is not None:
                self._confirmed_recipients.add(recipient)
        new_shares = [self._make_outgoing(effect) for effect in effects if isinstance(effect, Send)]
        if self._restating_learner is not None:
            self._send_restatements(state, new_shares)
            if received:
                self._seen[received[0]] = received[1]
        elif new_shares or received:
            self._commit(state, new_shares, received)
        self._state = state
        return [*(Transmit(outgoing) for outgoing in new_shares), *self._drop_sends(effects)]

    def _send_restatements(self, state: Any, new_shares: list[Outgoing]) -> None:
        """Put a restating learner's messages into the outbox; commit first if a crash must not lose the state."""
        reserved = [
            Outgoing(outgoing.recipient, outgoing.sequence + _RESERVED_NUMBERS - 1, b"")
            for outgoing in new_shares
            if outgoing.sequence > self._reserved_sequences.get(outgoing.recipient, 0)
        ]
        if reserved or (new_shares and self._crash_loss(state) is CrashLoss.LASTING):
            self._commit(state, reserved, None)
            self._reserved_sequences |= {block.recipient: block.sequence for block in reserved}
        self._note_sent(new_shares)

    def _commit(self, state: Any, sent: list[Outgoing], received: tuple[str, NewestMessage] | None) -> None:
        self._store.commit(state, sent, sorted(self._confirmed_recipients), received)
        self._confirmed_recipients, self._stored_state, self._unstored_since = set(), state, math.inf
        if self._restating_learner is None:
            self._note_sent(sent)
        if received is not None:
            self._seen[received[0]] = received[1]

    def _note_sent(self, shares: list[Outgoing]) -> None:
        self._outbox |= {outgoing.recipient: outgoing for outgoing in shares}
        self._sequences |= {outgoing.recipient: outgoing.sequence for outgoing in shares}

    def _make_outgoing(self, send: Send) -> Outgoing:
        sequence = self._sequences.get(send.recipient, 0) + 1
        return Outgoing(send.recipient, sequence, self._seal(send.recipient, sequence, send.message))

    @staticmethod
    def _drop_sends(effects: list[Effect]) -> list[Action]:
        return [effect for effect in effects if not isinstance(effect, Send)]
