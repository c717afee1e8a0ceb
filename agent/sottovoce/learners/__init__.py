"""The public half of each learner: a state machine without I/O."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.learners.events import (
    Ask,
    Delivered,
    Effect,
    Event,
    Forget,
    PeersChanged,
    PublishModel,
    Received,
    Send,
    SetTimer,
    Shelve,
    Timer,
)
from sottovoce.learners.learner import Belief, Bequeathing, Learner, Progress, Settling, State
from sottovoce.learners.messages import GolfMessage, GradientWalkMessage, Message, PushSumShare
from sottovoce.learners.published import Holding, Perturbation, Provenance, PublishedRecord, Shelf

if TYPE_CHECKING:
    from sottovoce.learners.golf import Golf, GolfSchedule, GolfState, moments_of
    from sottovoce.learners.gradient_walk import GradientWalk, GradientWalkSchedule, GradientWalkState, Walk
    from sottovoce.learners.push_sum import PushSum, PushSumState, Schedule
    from sottovoce.learners.shared_model import SharedModel
    from sottovoce.learners.shared_model_messages import HeadAnnounced, ModelWanted, SharedModelMessage
    from sottovoce.learners.shared_model_state import SharedModelSchedule, SharedModelState
    from sottovoce.learners.thresholds import Thresholds

__all__ = [
    "Ask",
    "Belief",
    "Bequeathing",
    "Delivered",
    "Effect",
    "Event",
    "Forget",
    "Golf",
    "GolfMessage",
    "GolfSchedule",
    "GolfState",
    "GradientWalk",
    "GradientWalkMessage",
    "GradientWalkSchedule",
    "GradientWalkState",
    "HeadAnnounced",
    "Holding",
    "Learner",
    "Message",
    "ModelWanted",
    "PeersChanged",
    "Perturbation",
    "Progress",
    "Provenance",
    "PublishModel",
    "PublishedRecord",
    "PushSum",
    "PushSumShare",
    "PushSumState",
    "Received",
    "Schedule",
    "Send",
    "SetTimer",
    "Settling",
    "SharedModel",
    "SharedModelMessage",
    "SharedModelSchedule",
    "SharedModelState",
    "Shelf",
    "Shelve",
    "State",
    "Thresholds",
    "Timer",
    "Walk",
    "moments_of",
]

_WHERE = {  # a device imports its own learner alone
    "Golf": "golf",
    "GolfSchedule": "golf",
    "GolfState": "golf",
    "GradientWalk": "gradient_walk",
    "GradientWalkSchedule": "gradient_walk",
    "GradientWalkState": "gradient_walk",
    "HeadAnnounced": "shared_model_messages",
    "ModelWanted": "shared_model_messages",
    "PushSum": "push_sum",
    "PushSumState": "push_sum",
    "Schedule": "push_sum",
    "SharedModel": "shared_model",
    "SharedModelMessage": "shared_model_messages",
    "SharedModelSchedule": "shared_model_state",
    "SharedModelState": "shared_model_state",
    "Thresholds": "thresholds",
    "Walk": "gradient_walk",
    "moments_of": "golf",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
