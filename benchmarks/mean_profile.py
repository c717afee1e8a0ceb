"""Error of a fleet's mean load profile from one secure sum at device level, with and without a public prior.

The settings are chosen with data from other homes: 622 homes in Scotland, with the load shape of one house in France as
the prior. They are then applied to 300 homes in London, and to 1,000 homes drawn from these with replacement, with the
mean profile of the Scottish homes as the prior. The shipped mechanism draws the noise; masks are omitted, because they
cancel. For comparison, each line also shows the errors of the prior and of zeros. If the data sets are
missing, the program prints a message and exits with status 0.

    python benchmarks/mean_profile.py [DATA] [--seeds N] [--epsilon E] [--smoke]
"""

import argparse
import csv
import gzip
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.cell.public.sum_consumer import MeanConsumer
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, SeededNoise
from sottovoce_lab.testbed.mean_errors import ErrorMeter

Floats = NDArray[np.float64]
DELTA, SHARE_COLLUDING, THRESHOLD, POINTS = 1e-5, 0.1, 0.7, 48
HARMONICS, LEVELS, SHAPES = (2, 3, 5, 8, 12), (1.0, 1.5, 2.0, 2.5, 3.0), (0.5, 0.7, 1.0, 1.4, 2.0)
DEFAULT_CLIP = 2.5
"""The default clip norm."""


@dataclass(frozen=True)
class ProfileErrors:
    """Root mean squared errors for one noise seed, as fractions of the mean load."""

    rmse: float
    noise_free: float
    prior: float
    zeros: float


def main() -> None:
    """Choose the settings with the Scottish homes, and measure the errors with the London homes."""
    options = _options()
    if not options.data.is_dir():
        print(f"skipped: no data sets in {options.data}; specify their folder, or set SOTTOVOCE_DATA")
        return
    seeds = 2 if options.smoke else options.seeds
    scotland, london = (
        _read_homes(options.data / "edrp_scotland/edrp_scotland.npz"),
        _read_homes(options.data / "lcl_halfhourly_2013/lcl_halfhourly_2013.npz"),
    )
    print(
        f"device level, ε = {options.epsilon:g}, δ = {DELTA:g}, a tenth colluding, threshold {THRESHOLD}; {seeds} seeds"
    )
    print(f"{'homes':>6} {'released':<42} {'rmse/mean':>10} {'worst':>7} {'clip':>7} {'prior':>7} {'zeros':>7}")
    for count in (300,) if options.smoke else (300, 1000):
        settings = _choose_settings(scotland, _scaled_profile(options.data, scotland), count, options.epsilon)
        prior = tuple(scotland.mean(axis=0).tolist())
        declared = Profile(POINTS, settings.clip, prior, settings.harmonics, settings.shape_clip)
        description = f"{declared.size} coefficients, clips {declared.clip:g} and {declared.shape_clip:g}"
        for label, profile in (("all numbers", Profile(POINTS, DEFAULT_CLIP)), (description, declared)):
            results = [_measure_sum(london, profile, count, options.epsilon, seed) for seed in range(seeds)]
            mean = {
                name: np.mean([getattr(result, name) for result in results]) for name in ProfileErrors.__annotations__
            }
            worst = max(result.rmse for result in results)
            figures = (mean["rmse"], worst, mean["noise_free"], mean["prior"], mean["zeros"])
            print(
                f"{count:>6} {label:<42} "
                + " ".join(f"{100 * figure:>{7 if i else 10}.1f}" for i, figure in enumerate(figures))
            )
    print("errors in per cent of the mean load; 'all numbers' has no prior, so its prior error is that of zeros")


def _choose_settings(homes: Floats, prior: Floats, count: int, epsilon: float) -> Profile:
    """Return the settings with the smallest expected error on these homes, for a fleet of `count` devices."""
    candidates = (
        Profile(POINTS, level, tuple(prior.tolist()), harmonics, shape)
        for harmonics, level, shape in itertools.product(HARMONICS, LEVELS, SHAPES)
    )

    def error(profile: Profile) -> float:
        meter = ErrorMeter(homes, profile, 0.0).measure_all([homes.mean(axis=0)])
        share = _terms(profile, count).deviation(_budget(epsilon), count)
        return float(np.hypot(meter.rmse_clip, share * profile.error / count**0.5))

    return min(candidates, key=error)


def _measure_sum(homes: Floats, profile: Profile, count: int, epsilon: float, seed: int) -> ProfileErrors:
    """Return the errors of one secure sum over `count` homes."""
    rng = np.random.default_rng(seed)
    sample = homes if count == len(homes) else homes[rng.integers(0, len(homes), count)]
    mechanism = _terms(profile, count).cell_mechanism(_budget(epsilon))
    noise = SeededNoise(seed)
    total = np.sum([mechanism.apply(_row(profile, home), count, noise) for home in sample], axis=0)
    consumer = MeanConsumer(profile, mechanism.step, mechanism.width, mechanism.largest_value, mechanism.share)
    measures = ErrorMeter(sample, profile, 0.0).measure_all(
        [consumer.model(consumer.value_after_sum(None, 0, total, count))]
    )
    truth = sample.mean(axis=0)
    zeros = float(np.sqrt(np.mean(truth**2)))
    errors = np.array([measures.rmse_mean, measures.rmse_clip, measures.rmse_prior, zeros]) / truth.mean()
    return ProfileErrors(*map(float, errors))


def _row(profile: Profile, home: Floats) -> Iterator[Floats]:
    yield profile.coefficients(home)[np.newaxis]


def _terms(profile: Profile, count: int) -> MeanTerms:
    return MeanTerms("average", profile, Cell(count, count, round(SHARE_COLLUDING * count), THRESHOLD))


def _budget(epsilon: float) -> Budget:
    return Budget(epsilon, DELTA, "device", "add-remove")


def _read_homes(path: Path) -> Floats:
    """Return each home's mean daily profile in kWh, float64[homes, 48]; missing readings are ignored."""
    wh = np.load(path)["wh"].astype(np.float64)
    days = np.where(wh < 0, np.nan, wh / 1000).reshape(len(wh), -1, POINTS)
    means: Floats = np.nan_to_num(np.nanmean(days, axis=1))
    return means


def _scaled_profile(data: Path, homes: Floats) -> Floats:
    """Return the mean daily profile of one house in France, scaled to the mean load of these homes."""
    hours: list[list[float]] = [[] for _ in range(24)]
    with gzip.open(data / "household_power/household_power_hourly.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["Global_active_power"]:
                hours[int(row["datetime"][11:13])].append(float(row["Global_active_power"]))
    shape = np.repeat([np.mean(hour) for hour in hours], 2)
    scaled: Floats = shape * homes.mean() / shape.mean()
    return scaled


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("SOTTOVOCE_DATA", "../shared/data"))
    parser.add_argument("data", type=Path, nargs="?", default=folder, help="folder that contains the data sets")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
