"""Send each peer of a device with a shared model its due messages, one at a time and the most urgent first."""

import numpy as np
from msgspec.structs import replace

from sottovoce.algorithms.shared_model.public.messages import HeadAnnounced, ModelWanted, SharedModelMessage
from sottovoce.algorithms.shared_model.public.state import SharedModelState
from sottovoce.learners.events import Effect, Send
from sottovoce.learners.messages import Message


def send_due_messages(state: SharedModelState) -> tuple[SharedModelState, list[Effect]]:
    """Send due messages to each peer that has confirmed its last one. All other messages wait for a confirmation."""
    effects: list[Effect] = []
    due = {*state.requests, state.fetch_from, *state.peers_to_notify} - state.pending - {""}
    for peer in dict.fromkeys((*state.requests, state.fetch_from, *state.peers)) if due else ():
        if peer not in due:
            continue
        state, message = _next_message(state, peer)
        if message is not None:
            state = replace(state, pending=state.pending | {peer})
            effects.append(Send(peer, message))
    return state, effects


def _next_message(state: SharedModelState, peer: str) -> tuple[SharedModelState, Message | None]:
    model = state.model
    if peer in state.requests:
        requests = tuple(waiting for waiting in state.requests if waiting != peer)
        answer = SharedModelMessage(model.head, model.parameters.astype(np.float32), model.simulated)
        return replace(state, requests=requests), answer
    if peer == state.fetch_from and not state.request_sent:
        return replace(state, request_sent=True), ModelWanted()
    if peer in state.peers_to_notify:
        return replace(state, peers_to_notify=state.peers_to_notify - {peer}), HeadAnnounced(
            state.announced_head, model.simulated
        )
    return state, None
