"""Messages of a kind that a test knows beforehand."""

from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.learners import Message


def share_of(message: Message) -> PushSumShare:
    """The message, which is a push-sum share."""
    assert isinstance(message, PushSumShare)
    return message
