"""Durable state and messages of an agent: storage that survives a power cut, and messages between agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.learners import Message

Parcel = bytes | Message  # an envelope for a socket, or the message itself inside one process


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Share in transit: stored, and repeated with the same bytes, until its recipient has confirmed it.

    Attributes:
        recipient: node id.
        sequence: position on the link to the recipient, from 1.
        parcel: the message as it is sent.
    """

    recipient: str
    sequence: int
    parcel: Parcel


@dataclass(frozen=True, slots=True)
class Seen:
    """Newest message from one sender that was applied or permanently refused.

    Attributes:
        incarnation: the life of the sender's durable state.
        sequence: position on the link from the sender.
        refused: one-word reason for a permanent refusal; empty if the message was applied.
    """

    incarnation: int
    sequence: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """Complete content of a store.

    Attributes:
        state: state of the learner.
        outbox: outgoing shares, at most one for each recipient.
        sequences: the last sequence used towards each recipient.
        seen: the newest message applied from each sender.
    """

    state: Any
    outbox: Sequence[Outgoing]
    sequences: Mapping[str, int]
    seen: Mapping[str, Seen]


class Store(Protocol):
    """The durable state of one agent."""

    def load(self) -> Saved:
        """Return the last commit."""
        ...

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], seen: tuple[str, Seen] | None
    ) -> None:
        """Write all changes or none, durably on return.

        Args:
            state: the learner's new state.
            sent: shares that enter the outbox and raise the sequence numbers of their recipients.
            confirmed: recipients whose entry leaves the outbox, before `sent` enters.
            seen: senders, each with its newest applied message.

        Raises:
            SottovoceError: if the write failed, and may or may not be durable: continue only from what a new store
                loads.
        """
        ...
