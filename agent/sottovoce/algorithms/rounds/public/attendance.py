"""Track which neighbours are present in a round and how far they have got, based only on their messages."""

from dataclasses import replace

from sottovoce.algorithms.rounds.public.messages import RoundMessage
from sottovoce.algorithms.rounds.public.schedule import MAX_BEHIND
from sottovoce.algorithms.rounds.public.state import RoundsState


def note_message(state: RoundsState, sender: str, message: RoundMessage) -> RoundsState:
    """Return the state after a message arrived, storing the message if it is still useful.

    A message is useful if it is the first from its sender for its phase, and that phase is neither finished nor too far
    ahead. A neighbour that sends a message for the current round or a later one counts as present.
    """
    current, key = state.work.round, (message.round, message.phase, sender)
    heard = {**state.reported_rounds, sender: max(message.round, state.reported_rounds.get(sender, 0))}
    state = replace(state, reported_rounds=heard)
    if message.round >= current:
        state = replace(state, absent_neighbours=state.absent_neighbours - {sender})
    useful = (current, state.phase) <= (message.round, message.phase) and message.round <= current + MAX_BEHIND
    if not useful or key in state.messages:
        return state
    return replace(state, messages={**state.messages, key: message})


def without_finished_phases(state: RoundsState) -> RoundsState:
    """Return the state without messages for phases that have finished."""
    current = (state.work.round, state.phase)
    return replace(state, messages={key: message for key, message in state.messages.items() if key[:2] >= current})


def missing_neighbours(state: RoundsState) -> frozenset[str]:
    """Return the neighbours that the device is still waiting for in the current phase."""
    current = (state.work.round, state.phase)
    return frozenset(peer for peer in state.expected_neighbours if (*current, peer) not in state.messages)


def majority(state: RoundsState) -> int:
    """Return the round that more than half of the present neighbours have reached; -1 if it is unknown.

    A single neighbour that claims a round far ahead therefore has no effect, unless no other neighbour is present.
    """
    present = [peer for peer in state.neighbours if peer not in state.absent_neighbours]
    rounds = sorted((state.reported_rounds.get(peer, -1) for peer in present), reverse=True)
    return rounds[len(rounds) // 2] if rounds else -1
