"""In-memory store for simulated agents, which survives the agents' simulated crashes."""

from collections.abc import Sequence
from typing import Any

from sottovoce.node.links import NewestMessage, Outgoing, SavedState


class MemoryStore:
    """Keeps an agent's data in memory. Implements sottovoce.node.links.Store.

    Args:
        state: the learner's initial state.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._outbox: dict[str, Outgoing] = {}
        self._sequences: dict[str, int] = {}
        self._seen: dict[str, NewestMessage] = {}

    def load(self) -> SavedState:
        """Return the most recently committed data."""
        return SavedState(self._state, list(self._outbox.values()), dict(self._sequences), dict(self._seen))

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], received: tuple[str, NewestMessage] | None
    ) -> None:
        """Apply a commit to the stored data; see Store.commit."""
        self._state = state
        for recipient in confirmed:
            self._outbox.pop(recipient, None)
        for outgoing in sent:
            if outgoing.parcel:
                self._outbox[outgoing.recipient] = outgoing
            self._sequences[outgoing.recipient] = outgoing.sequence
        if received is not None:
            self._seen[received[0]] = received[1]
