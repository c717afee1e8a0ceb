"""Topics: what they reveal, and what they must not contain."""

import pytest
from sottovoce.net.transports.mqtt.topics import Topics

A, B = "a" * 32, "b" * 32
TOPICS = Topics("hill-street", A)


def test_a_sender_writes_to_the_topic_that_the_recipient_reads() -> None:
    other = Topics("hill-street", B)
    assert TOPICS.inbox(B) == other.inboxes.replace("+", A)
    assert other.sender(TOPICS.inbox(B)) == A
    assert other.present_device(TOPICS.presence(A)) == A
    assert TOPICS.all_presences.replace("+", B) == other.presence(B)


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "/",
        B,
        f"sottovoce/v1/hill-street/in/{B}/{A}",
        f"sottovoce/v1/elsewhere/in/{A}/{B}",
        f"sottovoce/v2/hill-street/in/{A}/{B}",
        f"sottovoce/v1/hill-street/in/{A}",
        f"sottovoce/v1/hill-street/in/{A}/",
        f"sottovoce/v1/hill-street/in/{A}/{B}/",
        f"sottovoce/v1/hill-street/in/{A}/{B}/{B}",
        f"sottovoce/v1/hill-street/in/{A}/{B[:-1]}",
        f"sottovoce/v1/hill-street/in/{A}/{B.upper()}",
        f"sottovoce/v1/hill-street/in/{A}/{B}\n",
        f"sottovoce/v1/hill-street/in/{A}/{'x' * 60_000}",
        f"sottovoce/v1/hill-street/in/{A}/+",
        f"/sottovoce/v1/hill-street/in/{A}/{B}",
        f"sottovoce/v1/hill-street/peer/{B}",
    ],
)
def test_other_topics_have_no_sender(topic: str) -> None:
    assert TOPICS.sender(topic) is None


@pytest.mark.parametrize(
    "topic",
    [
        "",
        f"sottovoce/v1/hill-street/peer/{B}/x",
        f"sottovoce/v1/hill-street/peer//{B}",
        "sottovoce/v1/hill-street/peer/",
        "sottovoce/v1/hill-street/peer/reason=ok\nforged line",
        f"sottovoce/v1/elsewhere/peer/{B}",
        f"sottovoce/v1/hill-street/in/{A}/{B}",
    ],
)
def test_other_topics_are_not_presences(topic: str) -> None:
    assert TOPICS.present_device(topic) is None
