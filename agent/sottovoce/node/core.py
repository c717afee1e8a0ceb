"""The agent's core, without any I/O: a learner, its durable state, and links that apply each message exactly once.

A message from the learner to another device is called a share.

Links use a stop-and-wait protocol: at most one share per peer is in transit, so the outbox is bounded by the number of
peers. The sender makes a message durable before sending it, and the recipient makes it durable before confirming it. A
confirmation or an applied release is only written with the next commit, because repeating either after a crash changes
nothing. The same applies to taking back a share that its recipient has permanently and durably refused. If a learner
repeatedly sends its whole state (RestatingLearner), only the sequence numbers of its messages are durable before they
are sent. Data that it receives is written with the next commit, no later than when the next timer fires. The asyncio
agent and the simulator both use the class Core.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import (
    Ask,
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
    Received,
    Reply,
    RestatingLearner,
    Returned,
    SecureSumLearner,
    Send,
    SetTimer,
    SettlingLearner,
    Shelve,
    TakePart,
    Timer,
)
from sottovoce.node.adaptive_interval import AdaptiveInterval
from sottovoce.node.links import NewestMessage, Outgoing, Parcel, Store
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, Query, Refused

_MAX_REPLY_VALUES = 2**20
"""Maximum total number of values in stored replies. A reply is kept until the peer's next message, in case of loss."""


@dataclass(frozen=True, slots=True)
class Transmit:
    """An instruction to send this message repeatedly until it is confirmed."""

    outgoing: Outgoing


Action = Transmit | Reply | Forget | Ask | TakePart | SetTimer | PublishModel | Shelve


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
        self._can_restate = isinstance(learner, RestatingLearner)
        self._learner = learner
        self._store = store
        self._seal = seal
        self._open_parcel = open_parcel
        pending = [outgoing for outgoing in saved.outbox if outgoing.parcel and not self._can_restate]
        self._outbox = {outgoing.recipient: upgrade(outgoing) for outgoing in pending}
        self._state = learner.restore(saved.state, frozenset(self._outbox))
        self._sequences = dict(saved.sequences)
        self._seen = dict(saved.seen)
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._confirmed_recipients = [
            outgoing.recipient for outgoing in saved.outbox if outgoing.recipient not in self._outbox
        ]
        self._has_unwritten_changes = False

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
        """Handle an expired timer; on return, all changes since the last commit are durable."""
        actions = self._apply(Timer(timer), now)
        if self._has_unwritten_changes:
            self._commit(self._state, [], None)
        return actions

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
        self._confirmed_recipients.append(recipient)
        try:
            return self._apply(Delivered(recipient, reply), now)
        except MessageRefused:
            self._confirmed_recipients.pop()
            self._outbox[recipient] = outgoing
            raise

    def take_back(self, recipient: str, sequence: int, now: float) -> list[Action]:
        """Return the content of a share to the learner after its recipient has permanently refused it."""
        if not self.is_unconfirmed(recipient, sequence):
            return []
        message = self._open_parcel(self._outbox.pop(recipient).parcel)
        self._confirmed_recipients.append(recipient)
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
                self._confirmed_recipients.append(recipient)
        new_shares = [self._make_outgoing(effect) for effect in effects if isinstance(effect, Send)]
        if new_shares or (received and not self._can_restate):
            self._commit(state, new_shares, received)
        elif received:
            self._seen[received[0]] = received[1]
        self._has_unwritten_changes = (
            self._can_restate and not new_shares and (self._has_unwritten_changes or state is not self._state)
        )
        self._state = state
        return [*(Transmit(outgoing) for outgoing in new_shares), *self._drop_sends(effects)]

    def _commit(self, state: Any, new_shares: list[Outgoing], received: tuple[str, NewestMessage] | None) -> None:
        stored_shares = [replace(outgoing, parcel=b"") for outgoing in new_shares] if self._can_restate else new_shares
        self._store.commit(state, stored_shares, self._confirmed_recipients, received)
        self._confirmed_recipients, self._has_unwritten_changes = [], False
        for outgoing in new_shares:
            self._outbox[outgoing.recipient] = outgoing
            self._sequences[outgoing.recipient] = outgoing.sequence
        if received is not None:
            self._seen[received[0]] = received[1]

    def _make_outgoing(self, send: Send) -> Outgoing:
        sequence = self._sequences.get(send.recipient, 0) + 1
        return Outgoing(send.recipient, sequence, self._seal(send.recipient, sequence, send.message))

    @staticmethod
    def _drop_sends(effects: list[Effect]) -> list[Action]:
        return [effect for effect in effects if not isinstance(effect, Send)]
