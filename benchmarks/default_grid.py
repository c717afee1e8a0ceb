"""Compare each learner's accuracy with default settings to its accuracy at the best point in a settings grid.

Twelve devices share the digits at ε = 2, in simulation. The best point is the one with the highest accuracy on the
test records with two seeds. Both accuracies are then measured with five other seeds.

    python benchmarks/default_grid.py [--smoke] [--learner NAME]
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sottovoce.learning.registry import ALGORITHMS, DEFAULT
from sottovoce.learning.settings import STEPS, GradientSettings
from sottovoce_lab.library.simulation import simulate
from sottovoce_lab.papers.cells import half_interval

Point = Mapping[str, Any]
SELECTION_SEEDS, MEASUREMENT_SEEDS = range(2), range(10, 15)
MAX_LOSS = 0.03
RATES = (0.25, 0.5, 1.0, 2.0, 4.0)
CLIPS = (0.25, 0.5, 1.0, 2.0)
VISITS = (2, 3, 4, 6, 8, 12, 16, 24)


def combinations(**keys: Sequence[Any]) -> list[Point]:
    """Return every combination of the values listed for each key in `[learner]`."""
    return [dict(zip(keys, values, strict=True)) for values in product(*keys.values())]


def build_grid(name: str) -> list[Point]:
    """Return at most 40 settings to try for a learner; an empty list if it trains no model under noise."""
    algorithm = ALGORITHMS[name]
    settings = algorithm.settings()
    if name == "golf":
        schemes = ("best", "laplace", "privunit", "krr-privunit")
        return combinations(model=algorithm.models, perturbation=schemes, capacity=(1024, 4096))
    if name == "gradient-walk":
        split = combinations(model=algorithm.models, budget=("k-times", "halving"), visits=VISITS)
        return combinations(model=algorithm.models) + split
    if algorithm.noiseless or not isinstance(settings, GradientSettings):
        return []
    rates = [settings.default_rate * rate for rate in RATES]
    if name == "without-replacement":
        return combinations(step_size=rates, clip=CLIPS, passes=(1, 3))
    if name == "with-replacement":
        return combinations(step_size=rates, clip=CLIPS, batch=(25, 50))
    return combinations(step_size=rates, clip=CLIPS, steps=(STEPS // 2, STEPS))


def measure_accuracies(name: str, point: Point, seeds: range) -> np.ndarray:
    """Return the mean accuracy of all devices at the end of a run, for each seed, float64[seeds]."""
    settings = {f"learner.{key}": value for key, value in point.items()}
    runs = simulate("digits", learner=name, agents=12, epsilon=2.0, seed=seeds, settings=settings)
    return np.array([run.final["accuracy_mean"] for run in runs])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="try only two points of one learner's grid")
    parser.add_argument(
        "--learner",
        action="append",
        choices=list(ALGORITHMS),
        help="learner to measure; can be repeated; if omitted, the default learner",
    )
    arguments = parser.parse_args()
    names = ["with-replacement"] if arguments.smoke else arguments.learner or [DEFAULT]
    worst = 0.0
    print("learner              points  default   best   lost            best point", flush=True)
    for name in names:
        points = build_grid(name)[: 2 if arguments.smoke else None]
        if not points:
            continue
        best = max(points, key=lambda point: measure_accuracies(name, point, SELECTION_SEEDS).mean())
        default, tuned = (
            measure_accuracies(name, {}, MEASUREMENT_SEEDS),
            measure_accuracies(name, best, MEASUREMENT_SEEDS),
        )
        loss, half = (tuned - default).mean(), half_interval(tuned - default)
        worst = max(worst, loss)
        print(
            f"{name:<20} {len(points):>6}   {default.mean():.3f}  {tuned.mean():.3f}  {loss:+.3f} ± {half:.3f}  {best}",
            flush=True,
        )
    return 0 if arguments.smoke or worst <= MAX_LOSS else 1


if __name__ == "__main__":
    sys.exit(main())
