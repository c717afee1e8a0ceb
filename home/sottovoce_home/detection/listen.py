"""Listening to a broker for a while, to detect the meters on it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

from sottovoce.errors import NetworkError

from sottovoce_home.broker import BrokerRefused, BrokerSettings, SubscriptionRefused, VersionRefused, open_session
from sottovoce_home.detection.detector import Detector
from sottovoce_home.detection.templates import PLACEHOLDER
from sottovoce_home.meters import Arrival

_EVERYTHING = "#"


async def listen(settings: BrokerSettings, detector: Detector, seconds: float) -> list[str]:
    """Pass the messages of a broker to a detector, which holds what is known whenever this call ends.

    Args:
        settings: settings for the connection.
        detector: receives the messages. If this user may not subscribe to all topics, those of its formats are heard.
        seconds: duration of listening.

    Returns:
        What the owner should know about the connection.

    Raises:
        BrokerRefused: if the broker refuses this user.
        NetworkError: if the broker cannot be reached, or the connection ends before a message arrives.
    """
    topics = [value.topic for template in detector.templates for value in template.form.values]
    narrow = list(dict.fromkeys("/".join(_filter_level(level) for level in topic.split("/")) for topic in topics))
    remarks: list[str] = []
    try:
        await _hear(settings, narrow, detector, seconds, remarks)
    except NetworkError as error:
        if detector.messages:
            return [*remarks, f"the connection ended: {error}"]
        if not settings.mqtt5 or (isinstance(error, BrokerRefused) and not isinstance(error, VersionRefused)):
            raise
        try:
            await _hear(replace(settings, mqtt5=False), narrow, detector, seconds, remarks)
        except NetworkError:
            raise error from None
        remarks.append('the broker speaks MQTT 3.1.1 only: set feed.version = "3.1.1"')
    return remarks


def _filter_level(level: str) -> str:
    return "+" if PLACEHOLDER.search(level) else level


async def _hear(
    settings: BrokerSettings, narrow: list[str], detector: Detector, seconds: float, remarks: list[str]
) -> None:
    def receive(topic: str, payload: bytes, retained: bool) -> None:
        detector.add(Arrival(topic, payload, retained, time.monotonic(), time.time()))

    async with open_session(settings, [], None, lambda: None, receive) as session:
        try:
            await session.subscribe(_EVERYTHING, qos=0)  # with QoS 1, a broker drops all but its first 1000 retained
        except SubscriptionRefused as refusal:
            granted = 0
            for topic_filter in narrow:
                with suppress(SubscriptionRefused):
                    await session.subscribe(topic_filter, qos=0)
                    granted += 1
            if not granted:
                raise refusal
            remarks.append("this user may not subscribe to #, so only the usual topics of known tools were heard")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in session.messages():  # none is queued, but the end of the connection raises an error
                    pass
