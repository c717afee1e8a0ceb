"""Attendance of a round: who is there, and how far, from messages alone, without a server that calls rounds."""

from dataclasses import replace

from sottovoce.algorithms.rounds.public.messages import RoundMessage
from sottovoce.algorithms.rounds.public.schedule import MAX_BEHIND
from sottovoce.algorithms.rounds.public.state import RoundsState


def noted(state: RoundsState, sender: str, message: RoundMessage) -> RoundsState:
    """Keep a message that is still of use: of the phase in progress or of one to come soon, the first of its kind.

    Anyone who speaks of the present round, or a later one, is there.
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


def swept(state: RoundsState) -> RoundsState:
    """Forget messages of phases that are over."""
    now = (state.work.round, state.phase)
    return replace(state, came={place: message for place, message in state.came.items() if place[:2] >= now})


def missing(state: RoundsState) -> frozenset[str]:
    """Neighbours that the present phase waits for."""
    here = (state.work.round, state.phase)
    return frozenset(peer for peer in state.expected if (*here, peer) not in state.came)


def majority(state: RoundsState) -> int:
    """The round that more than half of the neighbours who are there have reached; -1 when it is not known.

    So one neighbour that speaks of a round far ahead moves no one, unless it is the only one there.
    """
    present = [peer for peer in state.neighbours if peer not in state.absent]
    rounds = sorted((state.heard.get(peer, -1) for peer in present), reverse=True)
    return rounds[len(rounds) // 2] if rounds else -1
