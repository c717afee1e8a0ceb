"""`make storm SEEDS=N`: this many runs, their coverage, and every complaint with the command that replays it.

python -m tests.storm [--seeds N] [--first SEED] [--seed SEED [--without KIND]...]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.storm.run import Outcome, play, shrink
from tests.storm.weather import Weather, weather


def _run(seed: int) -> Outcome:
    return play(weather(seed))


def _format_complaint(outcome: Outcome) -> str:
    """Format a complaint, with the faults that it needs and the command that replays it."""
    original, minimal = weather(outcome.weather.seed), outcome.weather
    without = "".join(f" --without {kind}" for kind in original.kinds if kind not in minimal.kinds)
    extra_faults = {"cell-liar": minimal.liar, "reconfigured": dict(minimal.later)}
    all_faults = {**minimal.faults, **{kind: value for kind, value in extra_faults.items() if value}}
    faults = " ".join(f"{kind}={value}" for kind, value in all_faults.items())
    description = f"{minimal.learner}, {minimal.agents} agents, {minimal.cycles} cycles, {minimal.topology}"
    description += f", {dict(minimal.settings)}"
    return f"{outcome.complaint}\n  {description}, {faults}\n  python -m tests.storm --seed {minimal.seed}{without}"


def _format_coverage(outcomes: list[Outcome], seconds: float) -> str:
    """Count the runs with each kind of weather, and the runs of each learner."""

    def count_words(words: Iterable[str]) -> str:
        return ", ".join(f"{word} {count}" for word, count in sorted(Counter(words).items()))

    def list_lies(run: Weather) -> tuple[str, ...]:
        return tuple(filter(None, (run.faults.get("dishonest", "").partition("@")[2], run.liar)))

    kinds = sorted({kind for outcome in outcomes for kind in outcome.weather.kinds})
    mixings = sorted({outcome.weather.mixing for outcome in outcomes})
    runs = Counter((outcome.weather.mixing, kind) for outcome in outcomes for kind in ("runs", *outcome.weather.kinds))
    width = max(map(len, mixings), default=0)
    table = [f"{'':{width}}  {'  '.join(('runs', *kinds))}"]
    for mixing in mixings:
        numbers = "  ".join(f"{runs[mixing, kind]:{max(4, len(kind))}}" for kind in ("runs", *kinds))
        table.append(f"{mixing:{width}}  {numbers}")
    return "\n".join(
        (
            f"{len(outcomes)} runs in {seconds / 60:.1f} min, "
            f"{sum(outcome.messages for outcome in outcomes)} messages, "
            f"{sum(outcome.releases for outcome in outcomes)} releases",
            f"weather: {count_words(kind for outcome in outcomes for kind in outcome.weather.kinds)}",
            f"lies: {count_words(lie for outcome in outcomes for lie in list_lies(outcome.weather))}",
            f"graphs: {count_words(outcome.weather.topology for outcome in outcomes)}",
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
    arguments = parser.parse_args()
    if arguments.seed is not None:
        run = weather(arguments.seed)
        for kind in arguments.without:
            run = run.without(kind)
        outcome = play(run)
        print(_format_complaint(outcome) if outcome.complaint else f"seed {arguments.seed}: nothing is wrong")
        return bool(outcome.complaint)
    began, outcomes = time.monotonic(), []
    with ProcessPoolExecutor() as pool:
        for outcome in pool.map(_run, range(arguments.first, arguments.first + arguments.seeds), chunksize=8):
            outcomes.append(outcome)
            if outcome.complaint:
                print(_format_complaint(shrink(outcome)), flush=True)
            if len(outcomes) % 1000 == 0:
                print(f"{len(outcomes)} of {arguments.seeds} runs, {time.monotonic() - began:.0f} s", flush=True)
    print(_format_coverage(outcomes, time.monotonic() - began))
    complaint_count = sum(bool(outcome.complaint) for outcome in outcomes)
    print(f"{complaint_count} complaints")
    return bool(complaint_count)


if __name__ == "__main__":
    sys.exit(main())
