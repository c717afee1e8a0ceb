"""Types for an agent's durable state and for the messages in transit between agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.learning.learners import Message

Parcel = bytes | Message  # a sealed envelope for the network, or the message itself within one process


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A share in transit, which is stored and resent with the same bytes until its recipient has confirmed it.

    Attributes:
        recipient: node id of the recipient.
        sequence: sequence number on the link to the recipient, starting at 1.
        parcel: the message in the form in which it is sent.
    """

    recipient: str
    sequence: int
    parcel: Parcel


@dataclass(frozen=True, slots=True)
class NewestMessage:
    """The newest message from one sender that was applied or permanently refused.

    Attributes:
        incarnation: incarnation of the sender's durable state.
        sequence: sequence number on the link from the sender.
        refusal: one-word reason for a permanent refusal; empty if the message was applied.
    """

    incarnation: int
    sequence: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The complete content of a store.

    Attributes:
        state: the learner's state.
        outbox: outgoing shares, at most one per recipient.
        sequences: last sequence number used, by recipient.
        seen: newest message applied or permanently refused, by sender.
    """

    state: Any
    outbox: Sequence[Outgoing]
    sequences: Mapping[str, int]
    seen: Mapping[str, NewestMessage]


class Store(Protocol):
    """Durable storage for one agent's state."""

    def load(self) -> SavedState:
        """Return the last committed content."""
        ...

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], received: tuple[str, NewestMessage] | None
    ) -> None:
        """Write all changes or none; they are durable on return.

        Args:
            state: the learner's new state.
            sent: shares to add to the outbox; each increases the last sequence number used for its recipient. A share
                without a parcel is not added, and only reserves sequence numbers.
            confirmed: recipients whose shares are removed from the outbox, before those in `sent` are added.
            received: a sender with its newest message that was applied or permanently refused, if there is one.

        Raises:
            SottovoceError: if the write failed; the changes may or may not be durable, so continue only from the state
                that a new store loads.
        """
        ...
