"""`make year`: simulate homes that learn from their meters for a year, and report the results in tables and a plot.

The homes come from the London data set if it is available; otherwise, they are synthetic.

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

NAMES = ("persistence", "own", "pooled", "fleet")


def format_errors(outcome: Outcome) -> str:
    """Return the mean absolute errors in kWh by month, as a Markdown table."""
    lines = ["| days | " + " | ".join(NAMES) + " | fleet / persistence |", "| --- |" + " --- |" * (len(NAMES) + 1)]
    for month, errors in enumerate(outcome.months):
        means = [errors.mean(name) for name in NAMES]
        cells = " | ".join(f"{mean:.4f}" for mean in means)
        lines.append(f"| {10 + 30 * month} to {39 + 30 * month} | {cells} | {means[-1] / means[0]:.3f} |")
    return "\n".join(lines)


def plot_errors(outcome: Outcome, path: Path) -> None:
    """Plot the errors by month."""
    from sottovoce_lab.pages.pyplot import pyplot

    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name in NAMES:
        axes.plot(
            [25 + 30 * i for i in range(len(outcome.months))],
            [errors.mean(name) for errors in outcome.months],
            label=name,
        )
    axes.set_xlabel("day of the year")
    axes.set_ylabel("mean absolute error, kWh per half hour")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


def format_costs(outcome: Outcome) -> str:
    """Return the costs of the year as a Markdown table, with the median and the maximum over the homes."""
    rows: dict[str, list[float]] = {
        "ε of the day charged most": outcome.spent,
        "private steps": [float(steps) for steps in outcome.steps],
        "MB of files": [size / 1e6 for size in outcome.bytes],
        "commits per day, each of which waits for the disk": outcome.commits,
    }
    lines = ["| per home | median | maximum |", "| --- | --- | --- |"]
    return "\n".join(
        lines + [f"| {name} | {np.median(values):.3g} | {max(values):.3g} |" for name, values in rows.items()]
    )


def load_readings(count: int, days: int, seed: int) -> NDArray[np.int64]:
    """Return readings of London homes that use more than 50 Wh per half hour on average, or of synthetic homes."""
    if not LONDON.exists():
        print(f"using synthetic homes; for real ones, put the London data at {LONDON}")
        return draw_half_hours(count, days, seed).astype(np.int64)
    year = np.load(LONDON)["wh"].astype(np.int64)
    active = np.flatnonzero(np.where(year >= 0, year, 0).mean(axis=1) > 50)
    chosen: NDArray[np.int64] = year[np.random.default_rng(seed).choice(active, count, replace=False)]
    return chosen[:, : days * 48]


def main() -> int:
    """Run the simulation that the module describes, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=int, default=40)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--out", type=Path, default=Path("dist/year"))
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        plan = Plan(days=args.days, epsilon=args.epsilon, seed=args.seed)
        outcome = Year(load_readings(args.homes, args.days, args.seed), Path(directory), plan).run()
    args.out.mkdir(parents=True, exist_ok=True)
    page = f"{format_errors(outcome)}\n\n{format_costs(outcome)}\n"
    (args.out / "year.md").write_text(page)
    months = [{name: errors.mean(name) for name in NAMES} for errors in outcome.months]
    (args.out / "year.json").write_text(json.dumps({"months": months, "spent": outcome.spent, "steps": outcome.steps}))
    plot_errors(outcome, args.out / "year.svg")
    print(page)
    print(
        f"{args.homes} homes, ε = {args.epsilon:g} per day, {outcome.cuts} power cuts, {outcome.messages} messages, "
        f"steps {min(outcome.steps)} to {max(outcome.steps)}, ε of the day charged most {max(outcome.spent):.4f}, "
        f"files {max(outcome.bytes) / 1e6:.1f} MB at most; {(time.monotonic() - began) / 60:.1f} min"
    )
    for violation in outcome.violations:
        print(violation)
    return bool(outcome.violations)


if __name__ == "__main__":
    sys.exit(main())
