"""Repeated kill -9 of the broker: no mass is lost, nothing is charged twice, and learning continues."""

import random
import signal
import time
from contextlib import ExitStack
from getpass import getuser
from pathlib import Path

import pytest
from sottovoce_operator.fleet.mosquitto import write_broker

from tests.support.books import books, spending
from tests.support.devices import free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.mosquitto import MOSQUITTO, HardenedBroker
from tests.support.processes import AgentProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
AGENTS = 4
STEPS = 20


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
def test_a_killed_broker_loses_no_mass_and_no_charge(tmp_path: Path) -> None:
    fleet, port, fate = new_fleet(tmp_path / "fleet"), free_port(), random.Random(6)
    configuration = write_broker(
        fleet, tmp_path / "broker", ["127.0.0.1"], port=port, listen="127.0.0.1", user=getuser()
    )
    devices = [new_device(fleet, tmp_path / f"d{i}", seed=i) for i in range(AGENTS)]
    transport_settings = {"use": ["mqtt"], "mqtt": {"url": f"mqtts://127.0.0.1:{port}"}}
    for i, device in enumerate(devices):
        peers = [devices[(i + j) % AGENTS].entry(address="mqtt:main") for j in (1, 2)]
        device.configure(peers, learner={"period": 0.1, "steps": STEPS}, transport=transport_settings)
    with ExitStack() as stack:
        broker = stack.enter_context(HardenedBroker(configuration, port))
        agents = [stack.enter_context(AgentProcess(device)).ready() for device in devices]
        for _ in range(4):
            time.sleep(fate.uniform(0.1, 0.8))  # the kill must happen at a random moment
            broker.kill()
            time.sleep(fate.uniform(0.0, 0.8))
            broker.start()
        for agent in agents:
            until(lambda agent=agent: agent.status()["steps_done"] == STEPS, "every private step is done")  # type: ignore[misc]
            until(lambda agent=agent: agent.status()["traffic"]["received"] > 2, "messages come through again")  # type: ignore[misc]
        for agent in agents:
            agent.process.send_signal(signal.SIGTERM)
        assert [agent.wait_for_end() for agent in agents] == [0] * AGENTS
    for agent, device in zip(agents, devices, strict=True):
        spent = spending(device)
        assert (spent.charges, spent.releases) == (STEPS, STEPS)
        assert "Traceback" not in agent.log()
    totals = books(devices)
    assert totals.weight == totals.joined
    assert totals.numerator.tolist() == (-totals.contributed).tolist()


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
def test_the_shipped_broker_refuses_strangers_and_impersonation(tmp_path: Path) -> None:
    import asyncio
    import ssl

    import aiomqtt

    fleet, port = new_fleet(tmp_path / "fleet"), free_port()
    configuration = write_broker(
        fleet, tmp_path / "broker", ["127.0.0.1"], port=port, listen="127.0.0.1", user=getuser()
    )
    publisher, subscriber = (new_device(fleet, tmp_path / name, seed=0) for name in ("a", "b"))
    stranger = new_device(new_fleet(tmp_path / "elsewhere"), tmp_path / "c", seed=0)

    def context(device: object, root: Path = tmp_path / "fleet" / "ca.pem") -> ssl.SSLContext:
        ssl_context = ssl.create_default_context(cafile=root)
        if device is not None:
            directory = device.state / "identity"  # type: ignore[attr-defined]
            ssl_context.load_cert_chain(directory / "tls.pem", directory / "tls.key")
        return ssl_context

    async def received_topics(prefix: str) -> list[str]:
        """Return the topics on which `subscriber` receives messages from `publisher`."""
        topics = (
            f"{prefix}/peer/{publisher.id}",
            f"{prefix}/peer/{subscriber.id}",
            f"{prefix}/in/{subscriber.id}/{publisher.id}",
            f"{prefix}/in/{subscriber.id}/{stranger.id}",
            f"{prefix}/in/{publisher.id}/{subscriber.id}",
            "anything",
        )
        topics_received: list[str] = []
        async with (
            aiomqtt.Client("127.0.0.1", port, tls_context=context(subscriber)) as reader,
            aiomqtt.Client("127.0.0.1", port, tls_context=context(publisher)) as writer,
        ):
            await reader.subscribe([("#", 0)])
            await reader.subscribe([(f"{prefix}/peer/+", 1), (f"{prefix}/in/+/+", 1)])
            for topic in topics:
                await writer.publish(topic, topic, 1)
            await writer.publish(f"{prefix}/in/{subscriber.id}/{publisher.id}", "last", 1)
            async with asyncio.timeout(20):
                async for message in reader.messages:
                    if message.payload == b"last":
                        return topics_received
                    topics_received.append(message.topic.value)
        return topics_received

    with HardenedBroker(configuration, port):
        prefix = "sottovoce/v1/by-hand"
        expected = {f"{prefix}/peer/{publisher.id}", f"{prefix}/in/{subscriber.id}/{publisher.id}"}
        assert set(asyncio.run(received_topics(prefix))) == expected
        for device in (None, stranger):
            with pytest.raises(aiomqtt.MqttError):
                asyncio.run(_connect(port, context(device)))


async def _connect(port: int, tls: object) -> None:
    import aiomqtt

    async with aiomqtt.Client("127.0.0.1", port, tls_context=tls, timeout=5) as client:  # type: ignore[arg-type]
        await client.publish("anything", b"", 1)
