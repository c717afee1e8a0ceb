"""`make year`: homes learn from their meters for a year, and what that was like, in words and a picture.

The homes are London's where their data are, and made up otherwise.

python -m tests.year [--homes N] [--epsilon E] [--seed S] [--days D] [--out DIR]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.integration.test_feed_london import LONDON
from tests.support.loads import draw_half_hours
from tests.year.run import Outcome, Plan, Year

NAMES = ("persistence", "own", "pooled", "fleet", "blend")


def table(outcome: Outcome) -> str:
    """Mean absolute errors in kWh by month, as Markdown."""
    lines = ["| days | " + " | ".join(NAMES) + " | blend / own |", "| --- |" + " --- |" * (len(NAMES) + 1)]
    for month, errors in enumerate(outcome.months):
        means = [errors.mean(name) for name in NAMES]
        cells = " | ".join(f"{mean:.4f}" for mean in means)
        lines.append(f"| {10 + 30 * month} to {39 + 30 * month} | {cells} | {means[-1] / means[1]:.3f} |")
    return "\n".join(lines)


def drawn(outcome: Outcome, path: Path) -> None:
    """Draw the errors by month as a picture."""
    from sottovoce_lab.pages.pyplot import pyplot

    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name in NAMES:
        axes.plot(
            [25 + 30 * i for i in range(len(outcome.months))], [one.mean(name) for one in outcome.months], label=name
        )
    axes.set_xlabel("day of the year")
    axes.set_ylabel("mean absolute error, kWh in a half hour")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


def costs(outcome: Outcome) -> str:
    """The cost of the year to a home, as Markdown: to the median home, and to the home that it cost most."""
    rows: dict[str, list[float]] = {
        "ε of the day charged most": outcome.spent,
        "private steps": [float(steps) for steps in outcome.steps],
        "MB of files": [size / 1e6 for size in outcome.bytes],
        "commits a day, each of which waits for the disk": outcome.commits,
    }
    lines = ["| a home | median | most |", "| --- | --- | --- |"]
    return "\n".join(
        lines + [f"| {name} | {np.median(values):.3g} | {max(values):.3g} |" for name, values in rows.items()]
    )


def homes(count: int, days: int, seed: int) -> NDArray[np.int64]:
    """Readings of this many homes: of London's, each at least 50 Wh a half hour on average, or made-up ones."""
    if not LONDON.exists():
        print(f"made-up homes: put the London data at {LONDON} for real ones")
        return draw_half_hours(count, days, seed).astype(np.int64)
    year = np.load(LONDON)["wh"].astype(np.int64)
    able = np.flatnonzero(np.where(year >= 0, year, 0).mean(axis=1) > 50)
    chosen: NDArray[np.int64] = year[np.random.default_rng(seed).choice(able, count, replace=False)]
    return chosen[:, : days * 48]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=int, default=40)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--out", type=Path, default=Path("dist/year"))
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        plan = Plan(days=asked.days, epsilon=asked.epsilon, seed=asked.seed)
        outcome = Year(homes(asked.homes, asked.days, asked.seed), Path(directory), plan).run()
    asked.out.mkdir(parents=True, exist_ok=True)
    page = f"{table(outcome)}\n\n{costs(outcome)}\n"
    (asked.out / "year.md").write_text(page)
    months = [{name: one.mean(name) for name in NAMES} for one in outcome.months]
    (asked.out / "year.json").write_text(json.dumps({"months": months, "spent": outcome.spent, "steps": outcome.steps}))
    drawn(outcome, asked.out / "year.svg")
    print(page)
    print(
        f"{asked.homes} homes, ε = {asked.epsilon:g} a day, {outcome.cuts} power cuts, {outcome.messages} messages, "
        f"steps {min(outcome.steps)} to {max(outcome.steps)}, ε of the day charged most {max(outcome.spent):.4f}, "
        f"files {max(outcome.bytes) / 1e6:.1f} MB at most; {(time.monotonic() - began) / 60:.1f} min"
    )
    for words in outcome.wrong:
        print(words)
    return bool(outcome.wrong)


if __name__ == "__main__":
    sys.exit(main())
