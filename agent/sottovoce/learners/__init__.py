"""What all learners have in common: a public half is a state machine without I/O."""

from sottovoce.learners.events import (
    Ask,
    Delivered,
    Effect,
    Event,
    Forget,
    PeersChanged,
    PublishModel,
    Received,
    Reply,
    Returned,
    Send,
    SetTimer,
    Shelve,
    Timer,
)
from sottovoce.learners.learner import Belief, Following, HandingOff, Learner, Progress, Restating, Settling, State
from sottovoce.learners.messages import Message
from sottovoce.learners.published import Holding, Perturbation, Provenance, PublishedRecord, Shelf, Signed

__all__ = [
    "Ask",
    "Belief",
    "Delivered",
    "Effect",
    "Event",
    "Following",
    "Forget",
    "HandingOff",
    "Holding",
    "Learner",
    "Message",
    "PeersChanged",
    "Perturbation",
    "Progress",
    "Provenance",
    "PublishModel",
    "PublishedRecord",
    "Received",
    "Reply",
    "Restating",
    "Returned",
    "Send",
    "SetTimer",
    "Settling",
    "Shelf",
    "Shelve",
    "Signed",
    "State",
    "Timer",
]
