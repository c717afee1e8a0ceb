"""An embedded MQTT broker on loopback, without access control, for a testbed on a host without Mosquitto.

The testbed runs this module as `python -m sottovoce_lab.testbed.embedded_broker PORT`. The broker supports MQTT 3.1.1.
"""

import asyncio
import signal
import sys

from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig, ListenerConfig


async def serve(port: int) -> None:
    """Serve on a loopback port until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    broker = Broker(
        BrokerConfig(
            listeners={"default": ListenerConfig(bind=f"127.0.0.1:{port}")},
            plugins={"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        )
    )
    await broker.start()
    await stopping.wait()
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
