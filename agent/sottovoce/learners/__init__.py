"""The public half of each learner: a state machine without I/O."""

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

__all__ = [
    "Ask",
    "Belief",
    "Bequeathing",
    "Delivered",
    "Effect",
    "Event",
    "Forget",
    "GolfMessage",
    "GradientWalkMessage",
    "Holding",
    "Learner",
    "Message",
    "PeersChanged",
    "Perturbation",
    "Progress",
    "Provenance",
    "PublishModel",
    "PublishedRecord",
    "PushSumShare",
    "Received",
    "Send",
    "SetTimer",
    "Settling",
    "Shelf",
    "Shelve",
    "State",
    "Timer",
]
