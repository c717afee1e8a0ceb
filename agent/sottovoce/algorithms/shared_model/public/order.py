"""Order of the writers of a shared model and of the devices to fetch it from, as functions of public values."""

from hashlib import sha256

from sottovoce.algorithms.shared_model.public.state import SharedModelSchedule, SharedModelState


def devices_before(state: SharedModelState, schedule: SharedModelSchedule, owner: str) -> int:
    """Return the number of devices whose turns come before this one's, once the newest head is known.

    Devices that have taken all their turns, as far as this device knows, are left out; for `decisions` this is not
    known. At step 0, the device that begins has the first turn, and the others follow if it is silent.
    """
    head = state.heard
    finished = {
        node for node, count in state.written.items() if count >= schedule.turns and schedule.asks != "decisions"
    }
    fleet = sorted(({*state.peers} - finished) | {owner})
    if head.step == 0:
        return 0 if schedule.begins else 1 + fleet.index(owner)
    if schedule.order == "random":
        return sorted(fleet, key=lambda node: _order_key(head.step, head.writer, node)).index(owner)
    following = [node for node in fleet if node > head.writer]
    return [*following, *(node for node in fleet if node <= head.writer)].index(owner)


def holders(state: SharedModelState, owner: str) -> list[str]:
    """Return the devices to ask for the newest model, in order: writer, announcer, earlier writers, other peers.

    The list contains only peers, unless there are none, because a writer that is not a peer may be out of reach.
    """
    first = [node for node in (state.heard.writer, state.source, *state.recent) if node in state.peers]
    found = list(dict.fromkeys([*first, *state.peers]))
    return found or [node for node in (state.heard.writer,) if node not in ("", owner)]


def _order_key(step: int, writer: str, node: str) -> bytes:
    return sha256(f"sottovoce/shared-model-turn|{step}|{writer}|{node}".encode()).digest()
