"""Store in memory, lost with the object, for simulated agents, whose power cuts are simulated too."""

from collections.abc import Sequence
from typing import Any

from sottovoce.agent.links import Outgoing, Saved, Seen


class MemoryStore:
    """Implementation of sottovoce.agent.links.Store in memory.

    Args:
        state: the learner's first state.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._outbox: dict[str, Outgoing] = {}
        self._sequences: dict[str, int] = {}
        self._seen: dict[str, Seen] = {}

    def load(self) -> Saved:
        """Return the last commit."""
        return Saved(self._state, list(self._outbox.values()), dict(self._sequences), dict(self._seen))

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], seen: tuple[str, Seen] | None
    ) -> None:
        """Replace the saved content; see Store.commit."""
        self._state = state
        for recipient in confirmed:
            self._outbox.pop(recipient, None)
        for outgoing in sent:
            self._outbox[outgoing.recipient] = outgoing
            self._sequences[outgoing.recipient] = outgoing.sequence
        if seen is not None:
            self._seen[seen[0]] = seen[1]
