"""A message that is larger than any meter's: the feed keeps no more than its limit of it, and hears the next one."""

import asyncio

import pytest
from sottovoce_home.broker import MAX_PACKET_BYTES, BrokerSettings, open_session
from sottovoce_home.meters import MAX_PAYLOAD_BYTES

from tests.support.hostile_broker import HostileBroker, Message

TOPIC = "home/meter"


@pytest.mark.parametrize("mqtt5", [True, False])
async def test_the_rest_of_an_oversized_message_is_dropped_unread(mqtt5: bool) -> None:
    """Brokers with MQTT 3.1.1 know no limit of their clients, and a retained message comes again after every start."""
    with HostileBroker() as broker:
        settings = BrokerSettings("127.0.0.1", broker.port, None, None, None, mqtt5, "feed")
        async with open_session(settings, [TOPIC], None, pytest.fail) as session, asyncio.timeout(20):
            sizes = (MAX_PAYLOAD_BYTES, 10 * 2**20, MAX_PACKET_BYTES, 7)
            await asyncio.to_thread(broker.inject, *(Message(TOPIC, b"x" * size) for size in sizes))
            received = session.messages()
            lengths = [len((await anext(received))[1]) for _ in sizes]
        assert (lengths[0], lengths[3]) == (MAX_PAYLOAD_BYTES, 7)
        assert all(MAX_PAYLOAD_BYTES < length < MAX_PACKET_BYTES for length in lengths[1:3]), "refused as too large"
        assert broker.connections == 1
