"""Scenarios of two worlds: every learner with noise, from CSV and npz files and from a meter's feed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sottovoce.data.feed import Window
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.privacy.vault import Budget
from sottovoce_home.store import WindowStore

from tests.lives.fleets import TODAY, Scenario, Write
from tests.neighbours.files import LABELS, Layout, write_rows
from tests.neighbours.rows import Row

_FEED = "feed:mqtt://127.0.0.1:1883"
FEATURES = 58
"""Number of columns: enough that the size of a compressed record would show in the size of a file."""
COLUMNS = tuple(f"column {number}" for number in range(FEATURES))
_CELL = {"noise": "cell", "cell": {"min": 4, "max": 6, "colluding": 1}}
_OPTIONS: dict[str, dict[str, Any]] = {"pdsl": {"shapley": "cosine"}}


@dataclass
class Worlds:
    """Records of all devices in two neighbouring worlds.

    Attributes:
        left: records of the first device at each start, in one world.
        right: those in the other world.
        others: records of the other devices, equal in both worlds.
        day: the day in which the first device's feeds differ; None without a feed.
    """

    left: list[Write]
    right: list[Write]
    others: list[Write]
    day: int | None = None


def scenarios() -> Iterator[Scenario]:
    """Yield a scenario for each learner, mixing and kind of noise, and for each use of a feed."""
    for name, algorithm in ALGORITHMS.items():
        if algorithm.noiseless:
            continue
        variants: list[dict[str, Any]] = [_OPTIONS.get(name, {})]
        if name == "clipd2p":
            variants += [{"mixing": "pairwise"}, {"mixing": "push-sum"}, {"sampling": "poisson"}, {"model": "mlp"}]
        if name == "golf":
            variants += [{"perturbation": "privunit"}]
        for variant in variants:
            unit = algorithm.unit
            privacy = _CELL if algorithm.secure_sums == "always" else {}
            yield _scenario(name, variant, {"unit": unit, **privacy}, 5 if privacy else 3)
        if algorithm.secure_sums == "optional":
            yield _scenario(name, variants[0], {"unit": algorithm.unit, **_CELL}, 5)
    forecast = {"features": 10, "classes": 1, "transform": "none", "expected_records": 44}
    ridge = {"name": "clipd2p", "mixing": "pairwise", "model": "ridge"}
    yield _feed_scenario("forecast", forecast, ridge, {"unit": "window"})
    by_contributions = {"name": "clipd2p", "model": "ridge"}
    yield _feed_scenario("forecast by contributions", forecast, by_contributions, {"unit": "window"})
    loads = {"features": 48, "classes": 2, "transform": "none", "expected_records": 1}
    yield _feed_scenario("loads", loads, {"name": "average", "clip": 1.0}, {"unit": "device"})
    average = {"name": "average", "clip": 1.0}
    for_device = _feed_scenario("loads, ledger by day", loads, average, {"unit": "device"})
    yield replace(for_device, ledger=Budget(16.0, 1e-5, "window", "add-remove"))
    yield replace(
        _feed_scenario("loads in a cell", loads, {"name": "average", "clip": 1.0}, {"unit": "device", **_CELL}),
        devices=5,
    )
    products = {"name": "average", "products": ["monthly-profile", "flags", "annual-quantiles"]}
    yield replace(_feed_scenario("products in a cell", loads, products, {"unit": "device", **_CELL}), devices=5)


def _scenario(name: str, learner: dict[str, Any], privacy: dict[str, Any], devices: int) -> Scenario:
    words = [name, *(f"{key}={value}" for key, value in learner.items()), "cell" if "cell" in privacy else ""]
    tables = {
        "data": {
            "features": FEATURES,
            "classes": 2,
            "expected_records": 12,
            "labels": [*LABELS],
            "columns": [*COLUMNS],
        },
        "learner": {"name": name, "period": 1.0, **learner},
        "privacy": {"epsilon": 4.0, **privacy},
        "membership": {"sampling": "static"},
        "transport": {"peers": []},
    }
    return Scenario(" ".join(filter(None, words)), tables, devices)


def _feed_scenario(name: str, data: dict[str, Any], learner: dict[str, Any], privacy: dict[str, Any]) -> Scenario:
    first = TODAY - 365 if "products" in learner else TODAY - 6
    tables = {
        "data": {**data, "windows": [first, TODAY - 1]},
        "learner": {"period": 1.0, **learner},
        "privacy": {"epsilon": 4.0, **privacy},
        "membership": {"sampling": "static"},
        "transport": {"peers": []},
    }
    return Scenario(f"feed {name}", tables)


def draw_worlds(scenario: Scenario, seed: int) -> Worlds:
    """Draw the records of all devices in two neighbouring worlds."""
    rng = random.Random(seed)
    if scenario.name.startswith("feed"):
        return _draw_feeds(scenario, rng)
    relation = ALGORITHMS[str(scenario.tables["learner"]["name"])].neighbouring
    layout = Layout(
        rng.choice(("csv", "npz")),
        tuple(rng.sample(range(FEATURES), FEATURES)),
        COLUMNS,
        rng.choice((("away", "home"), ("home", "away"))),
        ",",
        True,
    )
    count = rng.choice((12, 13, 20)) if relation == "replace-one" else rng.choice((1, 2, 9))
    shared = [_draw_row(rng) for _ in range(count)]
    if rng.random() < 0.5:  # the differing record alone has its label
        shared = [replace(row, label=0) for row in shared]
    place, left = rng.randint(0, count), _draw_row(rng)
    right = [
        replace(left, label=1 - left.label),
        _draw_row(rng),
        replace(left, features=(-1e9,) + (0.0,) * (FEATURES - 1)),
    ]
    sides = [[left], [rng.choice(right)] if relation == "replace-one" else []]
    rng.shuffle(sides)
    if scenario.tables["privacy"]["unit"] == "device":
        shared, place = [], 0
        sides = [[_draw_row(rng) for _ in range(rng.choice((1, 9)))], []]
    worlds: tuple[list[Write], list[Write]] = ([], [])
    for world, differing in zip(worlds, sides, strict=True):
        rows = [*shared[:place], *differing, *shared[place:]]
        world += [_file(layout, rows), _file(layout, rows)]
    others = [_file(layout, [_draw_row(rng) for _ in range(14)]) for _ in range(scenario.devices - 1)]
    return Worlds(*worlds, others)


def _draw_row(rng: random.Random) -> Row:
    scale = rng.choice((0.0, 1e-9, 1.0, 1e6))
    return Row(tuple(scale * rng.gauss(0, 1) + 0.0 for _ in range(FEATURES)), rng.randrange(2))


def _file(layout: Layout, rows: list[Row]) -> Write:
    return lambda home: write_rows(home, layout, rows, has_windows=False)


def _draw_feeds(scenario: Scenario, rng: random.Random) -> Worlds:
    """Draw feeds in which one day differs: its readings, a meter that it alone has, or whether it has any."""
    random_state = np.random.default_rng(rng.randrange(2**32))
    count = 40 if "products" in scenario.tables["learner"] else 7  # products need at least 28 days
    days = random_state.integers(0, 900, (count, 48))
    days[random_state.random(days.shape) < 0.1] = -1
    solar = random_state.integers(0, 300, (count, 48))
    day = rng.randrange(count)
    other, other_solar = days.copy(), solar.copy()
    match rng.choice(("readings", "one reading", "no readings", "second meter", "export")):
        case "readings":
            other[day] = random_state.integers(0, 9000, 48)
        case "one reading":
            other[day, rng.randrange(48)] = 8000
        case "no readings":
            other[day] = -1
        case "second meter":
            solar[:] = other_solar[:] = -1
            other_solar[day] = 700
        case "export":
            other_solar[day] = -1
    if scenario.tables["privacy"]["unit"] == "device" and scenario.ledger is None:  # all days may differ
        other = random_state.integers(0, 4000, (count, 48))
    worlds = [_feed(days, solar), _feed(other, other_solar)]
    rng.shuffle(worlds)
    nothing = np.full((count, 48), -1)
    others = [_feed(random_state.integers(0, 900, (count, 48)), nothing) for _ in range(scenario.devices - 1)]
    return Worlds([worlds[0]] * 2, [worlds[1]] * 2, others, TODAY + 1 - count + day)


def _feed(house: Any, solar: Any) -> Write:
    def write(home: Path) -> str:
        path = home / "windows.db"
        if not path.exists():
            store = WindowStore(path, 1800, keep_days=400)
            windows = [
                Window(name, (TODAY + 1 - len(house) + day) * 48 + half_hour, int(wh))
                for name, days in (("house", house), ("solar", solar))
                for day, row in enumerate(days)
                for half_hour, wh in enumerate(row)
                if wh >= 0
            ]
            store.write(windows, {})
            store.close()
        return _FEED

    return write
