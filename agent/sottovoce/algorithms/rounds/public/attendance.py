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
    now, place = state.work.round, (message.round, message.phase, sender)
    heard = {**state.heard, sender: max(message.round, state.heard.get(sender, 0))}
    state = replace(state, heard=heard)
    if message.round >= now:
        state = replace(state, absent=state.absent - {sender})
    of_use = (now, state.phase) <= (message.round, message.phase) and message.round <= now + MAX_BEHIND
    if not of_use or place in state.came:
        return state
    return replace(state, came={**state.came, place: message})


def without_finished_phases(state: RoundsState) -> RoundsState:
    """Return the state without messages for phases that have finished."""
    now = (state.work.round, state.phase)
    return replace(state, came={place: message for place, message in state.came.items() if place[:2] >= now})


def missing_neighbours(state: RoundsState) -> frozenset[str]:
    """Return the neighbours that the device is still waiting for in the current phase."""
    here = (state.work.round, state.phase)
    return frozenset(peer for peer in state.expected if (*here, peer) not in state.came)


def majority(state: RoundsState) -> int:
    """Return the round that more than half of the present neighbours have reached; -1 if it is unknown.

    A single neighbour that claims a round far ahead therefore has no effect, unless no other neighbour is present.
    """
    present = [peer for peer in state.neighbours if peer not in state.absent]
    rounds = sorted((state.heard.get(peer, -1) for peer in present), reverse=True)
    return rounds[len(rounds) // 2] if rounds else -1
