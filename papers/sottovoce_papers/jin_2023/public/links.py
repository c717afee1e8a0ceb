"""Determine who writes a shared model next, and send each peer its due messages."""

from hashlib import sha256

import numpy as np
from msgspec.structs import replace
from sottovoce.plugin import Effect, Message, Send

from sottovoce_papers.jin_2023.public.messages import HeadAnnouncement, ModelRequest, SharedModelMessage
from sottovoce_papers.jin_2023.public.state import SharedModelSchedule, SharedModelState


def devices_before(state: SharedModelState, schedule: SharedModelSchedule, owner: str) -> int:
    """Return how many devices take their turns before this one, once the newest head is known.

    Devices known to have taken all their turns are left out. At step 0, the device that begins has the first turn, and
    the others follow if it is silent.
    """
    head = state.newest_head
    finished = {node for node, count in state.heads_by_writer.items() if count >= schedule.turns}
    fleet = sorted(({*state.peers} - finished) | {owner})
    if head.step == 0:
        return 0 if schedule.begins else 1 + fleet.index(owner)
    if schedule.order == "random":
        return sorted(fleet, key=lambda node: _order_key(head.step, head.writer, node)).index(owner)
    following = [node for node in fleet if node > head.writer]
    return [*following, *(node for node in fleet if node <= head.writer)].index(owner)


def holders(state: SharedModelState, owner: str) -> list[str]:
    """Return the devices to ask for the newest model, in order: writer, announcer, earlier writers, other peers.

    All of them are peers, because a writer that is not a peer may be unreachable. Without peers, only the writer is
    left.
    """
    first = [node for node in (state.newest_head.writer, state.source, *state.recent_writers) if node in state.peers]
    candidates = list(dict.fromkeys([*first, *state.peers]))
    return candidates or [node for node in (state.newest_head.writer,) if node not in ("", owner)]


def _order_key(step: int, writer: str, node: str) -> bytes:
    return sha256(f"sottovoce/shared-model-turn|{step}|{writer}|{node}".encode()).digest()


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
        return replace(state, request_sent=True), ModelRequest()
    if peer in state.peers_to_notify:
        return replace(state, peers_to_notify=state.peers_to_notify - {peer}), HeadAnnouncement(
            state.announced_head, model.simulated
        )
    return state, None
