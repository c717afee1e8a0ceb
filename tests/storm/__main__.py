"""`make storm SEEDS=N`: this many runs, their coverage, and every complaint with the command that replays it.

python -m tests.storm [--seeds N] [--first SEED] [--seed SEED [--without KIND]...]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.storm.run import Outcome, played, shrunk
from tests.storm.weather import Weather, weather


def _run(seed: int) -> Outcome:
    return played(weather(seed))


def _shown(outcome: Outcome) -> str:
    """Format a complaint, with the faults that it needs and the command that replays it."""
    whole, needed = weather(outcome.weather.seed), outcome.weather
    without = "".join(f" --without {kind}" for kind in whole.kinds if kind not in needed.kinds)
    beside = {"cell-liar": needed.liar, "reconfigured": dict(needed.later)}
    everything = {**needed.faults, **{kind: value for kind, value in beside.items() if value}}
    faults = " ".join(f"{kind}={value}" for kind, value in everything.items())
    told = (
        f"{needed.learner}, {needed.agents} agents, {needed.cycles} cycles, {needed.topology}, {dict(needed.settings)}"
    )
    return f"{outcome.complaint}\n  {told}, {faults}\n  python -m tests.storm --seed {needed.seed}{without}"


def _covered(found: list[Outcome], seconds: float) -> str:
    """Count the runs with each kind of weather, and the runs of each learner."""

    def counted(words: Iterable[str]) -> str:
        return ", ".join(f"{word} {count}" for word, count in sorted(Counter(words).items()))

    def lie(one: Weather) -> tuple[str, ...]:
        return tuple(filter(None, (one.faults.get("dishonest", "").partition("@")[2], one.liar)))

    kinds = sorted({kind for one in found for kind in one.weather.kinds})
    mixings = sorted({one.weather.mixing for one in found})
    runs = Counter((one.weather.mixing, kind) for one in found for kind in ("runs", *one.weather.kinds))
    wide = max(map(len, mixings), default=0)
    table = [f"{'':{wide}}  {'  '.join(('runs', *kinds))}"]
    for mixing in mixings:
        numbers = "  ".join(f"{runs[mixing, kind]:{max(4, len(kind))}}" for kind in ("runs", *kinds))
        table.append(f"{mixing:{wide}}  {numbers}")
    return "\n".join(
        (
            f"{len(found)} runs in {seconds / 60:.1f} min, {sum(one.messages for one in found)} messages, "
            f"{sum(one.releases for one in found)} releases",
            f"weather: {counted(kind for one in found for kind in one.weather.kinds)}",
            f"lies: {counted(one for outcome in found for one in lie(outcome.weather))}",
            f"graphs: {counted(one.weather.topology for one in found)}",
            *table,
        )
    )


def main() -> int:
    """Run the command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--without", action="append", default=[])
    asked = parser.parse_args()
    if asked.seed is not None:
        one = weather(asked.seed)
        for kind in asked.without:
            one = one.without(kind)
        outcome = played(one)
        print(_shown(outcome) if outcome.complaint else f"seed {asked.seed}: nothing is wrong")
        return bool(outcome.complaint)
    began, found = time.monotonic(), []
    with ProcessPoolExecutor() as pool:
        for outcome in pool.map(_run, range(asked.first, asked.first + asked.seeds), chunksize=8):
            found.append(outcome)
            if outcome.complaint:
                print(_shown(shrunk(outcome)), flush=True)
            if len(found) % 1000 == 0:
                print(f"{len(found)} of {asked.seeds} runs, {time.monotonic() - began:.0f} s", flush=True)
    print(_covered(found, time.monotonic() - began))
    wrong = sum(bool(one.complaint) for one in found)
    print(f"{wrong} complaints")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
