"""Messages of a kind that a test expects."""

from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.learning.learners import Message


def as_push_sum_share(message: Message) -> PushSumShare:
    """Return the message, after checking that it is a push-sum share."""
    assert isinstance(message, PushSumShare)
    return message
