"""The commands of docs/how-to/meters.md for a fleet: three homes that forecast, from the first to their fourth day."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data.feed import read_windows
from sottovoce.days import DAY
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.vault import Ledger

from tests.support.devices import free_port
from tests.support.home import GLOW, Bystander
from tests.support.loads import draw_half_hours
from tests.support.mosquitto import Broker
from tests.support.processes import SOTTOVOCE
from tests.support.shifted_clock import ShiftedClock
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs/how-to/meters.md"
FORECASTS = """
learner = {{ model = "ridge", period = 0.2 }}
membership.period = 0.2
data.features = 10
data.classes = 1
data.transform = "none"
data.expected_records = 44
data.windows = [{day}, 2036-11-24]
"""
"""Settings of a fleet that forecasts day by day, here in the homes' own files."""

HOMES = ("elm-1", "elm-2", "elm-3")
HALF_HOUR, DAYS = 1800, 4


class Street:
    """Three homes set up with the page's commands, with ports, a first day and a period that suit a test."""

    def __init__(self, directory: Path, clock: ShiftedClock, broker: Broker, first: int) -> None:
        self.directory, self.clock, self.first = directory, clock, first
        self._ports = {home: free_port() for home in HOMES}
        self._broker = broker
        blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
        make, invite, join = (
            next(block for block in blocks if words in block) for words in ("fleet init", "fleet invite", "fleet join")
        )
        self.run(make)
        self.run(invite)
        for home in HOMES:
            self.run(join.replace("home=elm-1 port=7411", f"home={home} port={self._ports[home]}"))

    def run(self, commands: str) -> str:
        """Run commands from the page, all of which must succeed."""
        day = datetime.fromtimestamp(self.first * DAY, UTC).date().isoformat()
        commands = commands.replace("127.0.0.1:1883", f"127.0.0.1:{self._broker.port}")
        commands = commands.replace("--for meters", "--for meters --unit window --epsilon 2")
        commands = commands.replace("privacy.epsilon = 1.0", 'privacy = { epsilon = 2.0, unit = "window" }')
        commands = commands.replace('vault.policy = "policy.toml"', FORECASTS.format(day=day))
        for number, home in enumerate(HOMES, start=1):
            commands = commands.replace(f"127.0.0.1:741{number}", f"127.0.0.1:{self._ports[home]}")
        path = f"PATH={Path(SOTTOVOCE).parent}:$PATH"
        command = [*self.clock.within, "bash", "-euc", f"{path}\n{commands}"]
        completed = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        assert completed.returncode == 0, f"{commands}\n{completed.stdout}{completed.stderr}"
        assert "error" not in completed.stderr
        return completed.stdout

    def start(self, what: str, home: str) -> subprocess.Popen[bytes]:
        """Start `feed` or `agent` with the command on the page."""
        command = [*self.clock.within, SOTTOVOCE, what, "run", "--config", f"{home}.toml"]
        with (self.directory / f"{home}.{what}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def window_count(self, home: str) -> int:
        file = self.directory / f"{home}.windows.db"
        return int((read_windows(file).wh >= 0).sum()) if file.exists() else 0

    def wait_for_windows(self, home: str, windows: int) -> None:
        until(lambda: self.window_count(home) >= windows, f"{windows} windows; it said:\n{self.logs()}")

    def wait_for_steps(self, home: str, steps: int) -> None:
        until(lambda: self.status(home)["steps_done"] == steps, f"{steps} steps; it said:\n{self.logs()}")

    def wait_for_peers(self, home: str, others: int) -> None:
        """Check while the clock stands still: a jump of half an hour is as long as a device is remembered."""
        until(lambda: len(self.status(home)["peers"]) == others, f"{others} peers; it said:\n{self.logs()}")

    def wait_for_log(self, words: str) -> None:
        """Wait until the feed of every home has logged these words."""
        for home in HOMES:
            log = self.directory / f"{home}.feed.log"
            until(lambda log=log: words in log.read_text(), f"{words}; it said:\n{self.logs()}")  # type: ignore[misc]

    def status(self, home: str) -> dict[str, Any]:
        try:
            return ask(self.directory / home, "status", TIMEOUT)
        except NetworkError:
            return {"steps_done": -1}

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.directory.glob("*.log")))


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    clock = ShiftedClock(tmp_path / "clock")
    first = int(datetime.now(UTC).timestamp() // DAY) + 1
    clock.set(first * DAY + 60 - datetime.now(UTC).timestamp())  # a minute into the first day
    (tmp_path / "street").mkdir()
    with Broker(tmp_path / "broker") as broker:
        yield Street(tmp_path / "street", clock, broker, first)


def reading(number: int, wh: int, later: int = 0) -> str:
    """Return the display's message at the end of a half hour, or some seconds later."""
    time = datetime.fromtimestamp(number * HALF_HOUR + later, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"electricitymeter": {"timestamp": time, "energy": {"import": {"cumulative": wh / 1000}}}})


@pytest.mark.timeout(300)
def test_three_homes_follow_the_page_to_their_fourth_day(street: Street) -> None:
    counted = 4_000_000 + np.cumsum(draw_half_hours(1, DAYS, 1, missing=0.0)[0].astype(int))
    steps = {1: 0} | {day: 24 + day - 2 for day in range(2, DAYS + 1)}
    with ExitStack() as stack:
        bystander = stack.enter_context(Bystander(street._broker))
        running = []
        for what in ("feed", "agent"):  # an agent ends if its feed has not created its file
            for home in HOMES:
                process = street.start(what, home)
                running.append((what, process))
                stack.callback(process.wait)
                stack.callback(process.kill)
            for home in HOMES:
                until((street.directory / f"{home}.windows.db").exists, "the feed has a file")
        street.wait_for_log("ready broker=")
        bystander.publish(GLOW, reading(street.first * 48, int(counted[0])))
        bystander.publish(GLOW, "garbage")  # a first reading completes no window; later refusals are logged
        street.wait_for_log("reading-refused meter=house reason=malformed")
        for day in range(1, DAYS + 1):
            for home in HOMES:
                street.wait_for_steps(home, steps[day])
            for half_hour in range(48 if day < DAYS else 0):
                number = (day - 1) * 48 + half_hour
                if number:
                    for later in (0, 60):  # the second reading confirms the window that the first one ends
                        bystander.publish(GLOW, reading(street.first * 48 + number, int(counted[number]), later))
                for home in HOMES:  # before the clock makes the readings too old
                    street.wait_for_windows(home, number)
                street.clock.advance(HALF_HOUR)
        for home in HOMES:
            street.wait_for_peers(home, 2)
            status = street.status(home)
            assert status["state"] in ("learning", "mixing")
            assert status["last_window"] == street.first + DAYS - 2
            assert 0 < status["privacy"]["spent_epsilon"] <= 2.0
        for _, process in running:
            process.terminate()
        assert [process.wait(TIMEOUT) for _, process in running] == [0] * len(running)
    for home in HOMES:
        ledger = Ledger.read(street.directory / home / "ledger.db")
        assert ledger.own_budget.description == "ε = 2, δ = 1e-05, window level, add-remove"
        assert ledger.epsilon_spent(Units(((street.first + DAYS - 1, street.first + 400),))) == 0, (
            "no future day has been charged"
        )
        ledger.close()
    assert "Traceback" not in street.logs()
    assert street.logs().count("reading-refused") == len(HOMES)
    assert "ERROR" not in street.logs()
