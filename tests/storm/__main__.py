"""`make storm SEEDS=N`: so many runs, what they covered, and every complaint with the command that shows it again.

python -m tests.storm [--seeds N] [--first SEED] [--seed SEED [--without KIND]...]
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.storm.run import Outcome, played, shrunk
from tests.storm.weather import Weather, weather


def _run(seed: int) -> Outcome:
    return played(weather(seed))


def _shown(outcome: Outcome) -> str:
    """A complaint, with the run that it needs and the command that plays it again."""
    whole, needed = weather(outcome.weather.seed), outcome.weather
    without = "".join(f" --without {kind}" for kind in whole.faults if kind not in needed.faults)
    faults = " ".join(f"{kind}={value}" for kind, value in needed.faults.items())
    told = (
        f"{needed.learner}, {needed.agents} agents, {needed.cycles} cycles, {needed.topology}, {dict(needed.settings)}"
    )
    return f"{outcome.complaint}\n  {told}, {faults}\n  python -m tests.storm --seed {needed.seed}{without}"


def _covered(found: list[Outcome], seconds: float) -> str:
    def counted(words: Counter[str]) -> str:
        return ", ".join(f"{word} {count}" for word, count in sorted(words.items()))

    def mixed(one: Weather) -> str:
        return " ".join((one.learner, str(one.settings.get("learner.mixing", "")))).strip()

    return "\n".join(
        (
            f"{len(found)} runs in {seconds / 60:.1f} min, {sum(one.messages for one in found)} messages, "
            f"{sum(one.releases for one in found)} releases",
            f"learners: {counted(Counter(mixed(one.weather) for one in found))}",
            f"faults: {counted(Counter(kind for one in found for kind in one.weather.faults))}",
            f"graphs: {counted(Counter(one.weather.topology for one in found))}",
        )
    )


def main() -> int:
    """See the module."""
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
