"""The public half of each learner: a state machine without I/O."""

from sottovoce.learners.events import (
    Ask,
    Delivered,
    Effect,
    Event,
    PublishModel,
    Received,
    Send,
    SetTimer,
    Timer,
)
from sottovoce.learners.messages import Message, PushSumShare
from sottovoce.learners.push_sum import PushSum, PushSumState, Schedule

__all__ = [
    "Ask",
    "Delivered",
    "Effect",
    "Event",
    "Message",
    "PublishModel",
    "PushSum",
    "PushSumShare",
    "PushSumState",
    "Received",
    "Schedule",
    "Send",
    "SetTimer",
    "Timer",
]
