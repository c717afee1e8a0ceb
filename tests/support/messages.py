"""Messages of a kind that a test knows beforehand."""

from sottovoce.learners import Message, PushSumShare


def share_of(message: Message) -> PushSumShare:
    """The message, which is a push-sum share."""
    assert isinstance(message, PushSumShare)
    return message
