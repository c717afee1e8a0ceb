"""The `sottovoce feed run` process and other clients of a home's broker."""

import asyncio
import json
import signal
import subprocess
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, cast

import aiomqtt
import numpy as np
from numpy.typing import NDArray
from sottovoce.node.control import ControlServer, ControlTarget
from sottovoce.node.faults import Fault

from tests.support.mosquitto import Broker
from tests.support.processes import SOTTOVOCE, sottovoce
from tests.support.waiting import TIMEOUT, until

GLOW = "glow/C8C9A3000000/SENSOR/electricitymeter"


def write_home_config(directory: Path, url: str, feed: str = "", meters: str | None = None) -> Path:
    """Write a configuration with one meter, by default a Glow whose past is replayed in windows of a minute."""
    glow = '[[feed.meters]]\nname = "house"\nformat = "glow"\nnames = { device = "C8C9A3000000" }\nreplay = true\n'
    path = directory / "agent.toml"
    path.write_text(
        f'[agent]\nstate = "state"\n[data]\nsource = "feed:{url}"\nfeatures = 10\nclasses = 2\nexpected_records = 100\n'
        "windows = [0, 40000]\n"
        f"[feed]\nwindow = 60\n{feed}\n{glow if meters is None else meters}"
    )
    return path


def glow(minute: int, kwh: float) -> str:
    """Return a message of a Glow display, measured this many minutes into 2013."""
    hours, minutes = divmod(minute, 60)
    return json.dumps(
        {
            "electricitymeter": {
                "timestamp": f"2013-01-01T{hours:02}:{minutes:02}:00Z",
                "energy": {"import": {"cumulative": kwh, "mpan": "1900009999999", "supplier": "Octopus Energy"}},
                "power": {"value": 0.623, "units": "kW"},
            }
        }
    )


class FeedProcess:
    """A `sottovoce feed run` process that keeps its output."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self._log = config.with_suffix(".log")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [SOTTOVOCE, "feed", "run", "--config", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return self._log.read_text()

    def wait_for_log(self, words: str, times: int = 1) -> Self:
        """Wait until the process has written these words this many times."""
        until(lambda: self.log().count(words) >= times or self.process.poll() is not None, f"the log contains {words}")
        assert self.log().count(words) >= times, f"the feed ended; its log:\n{self.log()}"
        return self

    def end(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; return the exit code."""
        self.process.send_signal(signum)
        return self.process.wait(timeout=TIMEOUT)

    def show(self) -> dict[str, Any]:
        """Return the document that `sottovoce feed show --json` prints."""
        result = sottovoce("feed", "show", "--config", self.config, "--json")
        assert result.returncode == 0, result.stderr
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def window_count(self, meter: str = "house") -> int:
        """Return the number of windows that are stored for a meter."""
        if not self.config.with_name("windows.db").exists():
            return 0
        return int(self.show()["meters"].get(meter, {"windows": 0})["windows"])


class Bystander:
    """Separate client of the broker, in its own thread: it publishes, and receives everything that is published."""

    def __init__(self, broker: Broker, **options: Any) -> None:
        self._broker = broker
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self.heard: list[tuple[str, bytes, bool]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(TIMEOUT)

    def publish(self, topic: str, payload: str | bytes, *, retain: bool = False) -> None:
        """Publish, and wait until the broker has received the message."""
        publishing = self._client.publish(topic, payload, qos=1, retain=retain)
        asyncio.run_coroutine_threadsafe(publishing, self._loop).result(TIMEOUT)

    def last(self, topic: str) -> bytes | None:
        """Return the newest payload on a topic."""
        return next((payload for heard, payload, _ in reversed(self.heard) if heard == topic), None)

    async def _live(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with aiomqtt.Client("127.0.0.1", self._broker.port, **self._options) as self._client:
            await self._client.subscribe("#", qos=1)
            listening = asyncio.create_task(self._listen())
            self._ready.set()
            await self._end.wait()
            listening.cancel()

    async def _listen(self) -> None:
        async for message in self._client.messages:
            self.heard.append((message.topic.value, message.payload, message.retain))


class StandIn:
    """Stand-in for an agent, which answers at the control socket from its own thread."""

    def __init__(self, state: Path, weights: int) -> None:
        state.mkdir()
        self.cycle = 7
        self.received = 3
        self.fault: Fault | None = None
        self.model: NDArray[np.float64] | None = np.zeros(weights)
        self._server = ControlServer(state / "agent.sock", cast(ControlTarget, self))
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(TIMEOUT)

    def status(self) -> dict[str, Any]:
        """Return a status with the fields that the feed reads."""
        if self.fault is not None:
            return {"state": "needs-a-person", "fault": asdict(self.fault)}
        return {
            "transport": {"trouble": ""},
            "state": "learning",
            "peers": [{}, {}, {}],
            "privacy": {"epsilon": 2.0, "spent_epsilon": 0.5},
            "ledger": {"lasts_days": None},
            "traffic": {"messages": 12, "received": self.received},
            "certificate_expires": "2027-01-01T00:00:00+00:00",
        }

    async def _live(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        await self._server.start()
        self._ready.set()
        await self._end.wait()
        await self._server.stop()
