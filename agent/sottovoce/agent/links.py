"""Storage that survives a power cut, and messages that move between agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.learners import Message

Parcel = bytes | Message  # an envelope for a socket, or the message itself inside one process


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A share on its way: kept, and sent again with the same bytes, until its recipient has confirmed it.

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
    """The newest message from one sender, which was applied or permanently refused.

    Attributes:
        incarnation: the life of the sender's durable state.
        sequence: position on the link from the sender.
        refused: the reason, in a word, why it was not applied and never will be; empty if it was applied.
    """

    incarnation: int
    sequence: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """Everything a store holds.

    Attributes:
        state: the learner's.
        outbox: at most one for each recipient.
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
        """The last commit."""
        ...

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], seen: tuple[str, Seen] | None
    ) -> None:
        """Write all of this, or nothing, durably on return.

        Args:
            state: the learner's new state.
            sent: enters the outbox and raises the sequence of its recipient.
            confirmed: recipients whose entry leaves the outbox, before `sent` enters.
            seen: sender and newest message applied.

        Raises:
            SottovoceError: if it failed, so that it may be durable or not: continue only from what a new store
                loads.
        """
        ...
