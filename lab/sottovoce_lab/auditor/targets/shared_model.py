"""Observer that recovers releases from consecutive versions of a shared model, as a peer could."""

from dataclasses import replace

import numpy as np
from sottovoce.learning.learners import Message
from sottovoce.privacy.vault import Vault
from sottovoce_papers.jin_2023.public.machine import SharedModel
from sottovoce_papers.jin_2023.public.messages import HeadAnnouncement, ModelRequest, SharedModelMessage
from sottovoce_papers.jin_2023.public.state import SharedModelSchedule

from sottovoce_lab.auditor.subject import ObservedRun, Observer
from sottovoce_lab.auditor.wiretap import PEERS, overhear

_RATE = 1e-5  # small enough that the model, and hence each canary's gradient, stays close to its initial value
_SECONDS_PER_TURN = 8.0  # includes the time lost waiting for peers that never take their turn


def create_shared_model_observer(schedule: SharedModelSchedule, size: int) -> Observer:
    """Return an observer that fetches every announced model; consecutive ones differ only by the vault's answer.

    Models are sent as float32 and are accurate to a ten-millionth of the sum of all earlier releases.
    """
    schedule = replace(schedule, period=1.0, law="constant", step_size=_RATE, batch=1, patience=1.0, begins=True)

    def observe_device(vault: Vault, count: int) -> ObservedRun:
        # a peer cannot see how many records there are
        device = SharedModel(schedule, "audited", np.zeros(size))
        models = [
            frame.message.parameters.astype(np.float64)
            for frame in overhear(device, vault, _SECONDS_PER_TURN * schedule.turns, _request_model)
            if frame.recipient == PEERS[0] and isinstance(frame.message, SharedModelMessage)
        ]
        points = np.array([np.zeros(size), *models])
        return ObservedRun((points[:-1] - points[1:]) / _RATE, points[:-1])

    return observe_device


def _request_model(message: Message) -> Message | None:
    return ModelRequest() if isinstance(message, HeadAnnouncement) else None
