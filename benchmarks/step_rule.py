"""Compare round-based learners' accuracy with the default step size to that with a constant first step of 20.

Twelve devices share the digits or a table, whose features are standardised and limited to ±3, in simulation. Data sets
that are missing are skipped.

    python benchmarks/step_rule.py [DATA] [--learner NAME] [--seeds N] [--smoke]
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sottovoce_lab.library.simulation import Data, simulate

OWN_STEP, RANGE, MAX_RECORDS = 20.0, 3.0, 12_000
BUDGETS = (0.5, 2.0, 8.0)


def main() -> None:
    """Print a row for each data set."""
    options = _options()
    budgets, seeds = (BUDGETS[-1:], range(1)) if options.smoke else (BUDGETS, range(options.seeds))
    print(
        f"{options.learner}, 12 devices, {len(seeds)} seeds; accuracy with a first step of {OWN_STEP:g} and by default"
    )
    print(f"{'data set':<20}" + "".join(f"{f'ε = {epsilon:g}':>18}" for epsilon in budgets))
    for name, data in _data_sets(None if options.smoke else options.data):
        cells = []
        for epsilon in budgets:
            pair = [_accuracy(data, options.learner, epsilon, seeds, step) for step in (OWN_STEP, None)]
            cells.append(f"{pair[0]:.3f} → {pair[1]:.3f}")
        print(f"{name:<20}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def _accuracy(data: Data, learner: str, epsilon: float, seeds: range, step_size: float | None) -> float:
    """Return the mean accuracy at the end of the runs."""
    bounds = None if isinstance(data, str) else (-RANGE, RANGE)
    settings = {} if step_size is None else {"learner.step_size": step_size}
    runs = simulate(data, learner=learner, epsilon=epsilon, seed=seeds, bounds=bounds, settings=settings)
    return float(np.mean([run.final["accuracy_mean"] for run in runs]))


def _data_sets(folder: Path | None) -> Iterator[tuple[str, Data]]:
    yield "digits", "digits"
    if folder is None:
        return
    for name, path in (
        ("image segmentation", folder / "image_segmentation"),
        ("Spambase", folder / "spambase" / "spambase.data"),
        ("Covertype", folder / "covertype" / "covtype.20k.data.gz"),
        ("UNSW-NB15", folder / "unsw_nb15" / "unsw_nb15.npz"),
    ):
        if path.exists():
            yield name, _standardise(*_read(path))
        else:
            print(f"{name}: skipped: no data set at {path}; specify its folder, or set SOTTOVOCE_DATA")


def _read(path: Path) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return features, float64[n, d], and labels as text."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"].astype(str)
    if path.is_dir():
        lines = [line for file in sorted(path.iterdir()) for line in file.read_text().splitlines()]
        rows = np.array([cells for line in lines if len(cells := line.split(",")) == 20 and cells[0].isupper()])
        return rows[:, 1:].astype(np.float64), rows[:, 0]
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-1], table[:, -1].astype(int).astype(str)


def _standardise(
    features: NDArray[np.float64], labels: NDArray[np.str_]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return at most MAX_RECORDS records with standardised features and numbered labels."""
    if len(features) > MAX_RECORDS:
        chosen = np.random.default_rng(5).permutation(len(features))[:MAX_RECORDS]
        features, labels = features[chosen], labels[chosen]
    deviation = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return np.clip(scaled, -RANGE, RANGE), np.unique(labels, return_inverse=True)[1]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("SOTTOVOCE_DATA", "../shared/data"))
    parser.add_argument("data", type=Path, nargs="?", default=folder, help="folder that contains the data sets")
    parser.add_argument("--learner", default="dp-dpsgd")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="run only one data set, one budget and one seed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
