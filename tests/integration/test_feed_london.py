"""London homes on a broker: their displays are replayed, and the feed's windows forecast their load."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import aiomqtt
import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data.feed import read_windows

from tests.support.command import document
from tests.support.home import FeedProcess
from tests.support.mosquitto import Broker
from tests.support.processes import sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

LONDON = Path(
    os.environ.get("SOTTOVOCE_DATA", Path(__file__).parents[3] / "shared" / "data"),
    "lcl_halfhourly_2013",
    "lcl_halfhourly_2013.npz",
)
DAYS = 60
AT_ONCE = 192


def replay(port: int, home: int, wh: NDArray[np.int64], store: Path) -> None:
    """Publish a home's half-hourly display readings, faster than real time: a rising counter in kWh.

    A few days at a time: of more than it can hold at once, a feed would drop the oldest.
    """
    counters = np.cumsum([4_000_000, *wh.tolist()]).tolist()

    async def publish(begin: int, end: int) -> None:
        async with aiomqtt.Client("127.0.0.1", port) as broker:
            for i in range(begin, end):
                at = datetime(2013, 3, 1, tzinfo=UTC) + i * timedelta(minutes=30)
                energies = {"import": {"cumulative": counters[i] / 1000}}
                reading = {"electricitymeter": {"timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", "energy": energies}}
                await broker.publish(f"glow/home{home}/SENSOR/electricitymeter", json.dumps(reading), qos=1)

    for begin in range(0, len(counters), AT_ONCE):
        end = min(begin + AT_ONCE, len(counters))
        asyncio.run(publish(begin, end))
        until(partial(complete, store, home, max(0, end - 2)), "these half hours are stored")


def complete(store: Path, home: int, windows: int) -> bool:
    """Check whether this many of a home's half hours are stored."""
    if not store.exists():
        return windows == 0
    stored = read_windows(store)
    name = f"home{home}"
    return (int((stored.wh[stored.meters.index(name)] >= 0).sum()) if name in stored.meters else 0) >= windows


@pytest.mark.skipif(not LONDON.exists(), reason=f"the London data are not at {LONDON}")
@pytest.mark.timeout(400)
def test_london_homes_learn_from_their_feeds_and_beat_persistence(tmp_path: Path) -> None:
    year = np.load(LONDON)["wh"].astype(np.int64)
    spring = year[:, 59 * 48 : (59 + DAYS) * 48]
    homes = spring[(spring >= 0).all(axis=1) & (spring.mean(axis=1) > 50)][:5]
    meters = "".join(
        f'[[feed.meters]]\nname = "home{i}"\nformat = "glow"\nnames = {{ device = "home{i}" }}\nreplay = true\n'
        for i in range(len(homes))
    )
    with Broker(tmp_path / "broker") as broker:
        config = tmp_path / "agent.toml"
        config.write_text(
            f'[agent]\nstate = "state"\n[data]\nsource = "feed:{broker.url}"\nfeatures = 10\nclasses = 1\n'
            'windows = [15000, 16000]\nexpected_records = 44\ntransform = "none"\n'
            '[learner]\nmodel = "ridge"\n[feed]\nstore = "windows.db"\n' + meters
        )
        with FeedProcess(config) as feed:
            feed.wait_for_log("ready broker=")
            for home in range(len(homes)):
                replay(broker.port, home, homes[home], tmp_path / "windows.db")
            assert feed.end() == 0
    spec = f"feed:{broker.url}#store={tmp_path / 'windows.db'}&test=0.25"
    results = {}
    for epsilon in ("inf", "2"):
        completed = sottovoce(
            *("testbed", "--json", "--transport", "memory", "--agents", len(homes), "--data", spec, "--model", "ridge"),
            *("--epsilon", epsilon, "--set", "privacy.unit=window"),
        )
        assert completed.returncode == 0, completed.stderr
        results[epsilon] = document(completed.stdout)
    print({epsilon: report["final"] for epsilon, report in results.items()})
    exact = results["inf"]["final"]
    assert exact["mae_mean"] < exact["mae_persistence"]
    assert results["2"]["privacy"]["status"] == "not proved"  # the windows were read off the data
    assert results["2"]["privacy"]["unit"] == "window"
    assert results["2"]["final"]["mae_mean"] < 1.1 * exact["mae_persistence"]
