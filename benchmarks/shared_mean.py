"""Compare fleets that centre their records by a shared noisy mean with fleets that do not, on the same seeds.

Ten devices share each data set in simulation, at ε = 1 and 3, alike and with `dirichlet(0.25)`. Everything else has its
default. Data sets that are missing are skipped. `--runs` keeps the accuracies in a file, so that a long measurement can
be made in pieces, and `--page` writes the table.

    python benchmarks/shared_mean.py [DATA] [--set NAME] [--learner NAME] [--seeds N] [--runs FILE] [--page FILE]
"""

import argparse
import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce_lab.library.simulation import Data, simulate
from sottovoce_lab.papers.cells import half_interval

DEVICES, LEARNERS, BUDGETS = 10, ("clipd2p", "group-sgd"), (1.0, 3.0)
PARTITIONS = {"alike": "iid", "unlike": "dirichlet(0.25)"}
CENTRES = ("none", "private")
COVERTYPE_RECORDS = 12_500  # a fifth of them is held out, which leaves 1,000 for each device
EDGES = "squash(1),hog(4),centre,unit,bias(0.3)"
Key = tuple[str, str, float, str, str, int]
"""A run: data set, learner, ε, how devices compare, `learner.centre` and seed."""


def main() -> None:
    """Measure all runs that the file lacks, and print the table or write the page."""
    options = _options()
    results = _read_runs(options.runs)
    names = list(SETS) if options.set is None else [options.set]
    learners = list(LEARNERS) if options.learner is None else [options.learner]
    budgets, seeds = list(BUDGETS), range(options.seeds)
    if options.smoke:
        names, learners, budgets, seeds = names[:1], learners[:1], budgets[:1], range(1)
    for name in names:
        if (data := SETS[name](options.data)) is None:
            print(f"{name}: skipped: not in {options.data}; specify the folder of the data, or set SOTTOVOCE_DATA")
            continue
        for learner, epsilon, alike, centre, seed in product(learners, budgets, PARTITIONS, CENTRES, seeds):
            key = name, learner, epsilon, alike, centre, seed
            if key not in results:
                results[key] = _accuracy(data, key)
                _store_run(options.runs, key, results[key])
    table = "\n".join(_rows(results))
    if options.page is None:
        print(table)
    else:
        options.page.write_text(PAGE.format(table=table))


def _accuracy(data: Mapping[str, Any], key: Key) -> float:
    """Return the mean accuracy of all devices at the end of a run."""
    _, learner, epsilon, alike, centre, seed = key
    settings = {**data.get("settings", {}), "data.partition": PARTITIONS[alike], "learner.centre": centre}
    (run,) = simulate(**{**data, "settings": settings}, learner=learner, agents=DEVICES, epsilon=epsilon, seed=seed)
    return float(run.final["accuracy_mean"])


def _rows(results: Mapping[Key, float]) -> Iterator[str]:
    """Yield a Markdown table with a row for each data set, learner and budget."""
    yield "| data set | learner | ε | " + " | ".join(f"{alike}: none → private | gain" for alike in PARTITIONS) + " |"
    yield "| --- | --- | --- |" + " --- | --- |" * len(PARTITIONS)
    for name, learner, epsilon in product(SETS, LEARNERS, BUDGETS):
        cells = []
        for alike in PARTITIONS:
            pairs = {centre: _by_seed(results, (name, learner, epsilon, alike, centre)) for centre in CENTRES}
            seeds = sorted(pairs["none"].keys() & pairs["private"].keys())
            if not seeds:
                cells += ["", ""]
                continue
            none, private = (np.array([pairs[centre][seed] for seed in seeds]) for centre in CENTRES)
            gains = 100 * (private - none)
            half = f" ± {half_interval(gains):.1f}" if len(seeds) > 1 else ""
            cells += [f"{none.mean():.3f} → {private.mean():.3f}", f"{gains.mean():+.1f}{half} ({len(seeds)})"]
        if any(cells):
            yield f"| {name} | `{learner}` | {epsilon:g} | " + " | ".join(cells) + " |"


def _by_seed(results: Mapping[Key, float], group: tuple[str, str, float, str, str]) -> dict[int, float]:
    return {key[-1]: accuracy for key, accuracy in results.items() if key[:-1] == group}


def _read_runs(path: Path | None) -> dict[Key, float]:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row[0], row[1], row[2], row[3], row[4], row[5]): row[6] for row in rows}


def _store_run(path: Path | None, key: Key, accuracy: float) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps([*key, round(accuracy, 4)]) + "\n")


def _arrays(features: NDArray[Any], labels: NDArray[Any], **more: Any) -> dict[str, Any]:
    """Return the arguments for arrays."""
    labels = np.unique(labels, return_inverse=True)[1]
    return {"data": (features.astype(np.float64), labels), "classes": int(labels.max()) + 1, **more}


def _digits(folder: Path) -> dict[str, Data]:
    return {"data": "digits"}


def _activity(folder: Path) -> dict[str, Any] | None:
    """Six statistics of nine signals per window; the official test persons are held out."""
    if not (path := folder / "uci_har" / "uci_har.npz").exists():
        return None
    with np.load(path) as arrays:
        signals, labels, held_out = arrays["X_q"].astype(np.float64), arrays["y"], arrays["official_test"]
    changes = np.abs(np.diff(signals, axis=2)).mean(2)
    extremes = signals.min(2), signals.max(2)
    features = np.hstack([signals.mean(2), signals.std(2), *extremes, changes, np.median(signals, axis=2)])
    test = features[held_out], np.unique(labels, return_inverse=True)[1][held_out]
    return _arrays(features[~held_out], labels[~held_out], test=test)


def _segmentation(folder: Path) -> dict[str, Any] | None:
    paths = [folder / "image_segmentation" / f"segmentation.{part}" for part in ("data", "test")]
    if not all(path.exists() for path in paths):
        return None
    rows = np.array([line.split(",") for path in paths for line in path.read_text().split()])
    return _arrays(rows[:, 1:], rows[:, 0])


def _in_ranges(read: Callable[[Path], dict[str, Any] | None], folder: Path) -> dict[str, Any] | None:
    """Return the same data with a declared range per column."""
    if (data := read(folder)) is None:
        return None
    features = data["data"][0]
    return {**data, "bounds": (features.min(axis=0), features.max(axis=0))}


def _covertype(folder: Path) -> dict[str, Any] | None:
    if not (path := folder / "covertype" / "covtype_sample.npz").exists():
        return None
    with np.load(path) as arrays:
        features = np.hstack([arrays["quant"], np.eye(4)[arrays["wilderness"]], np.eye(40)[arrays["soil"]]])
        labels = arrays["y"]
    chosen = np.random.default_rng(1).permutation(len(labels))[:COVERTYPE_RECORDS]
    return _arrays(features[chosen], labels[chosen])


def _spambase(folder: Path) -> dict[str, Any] | None:
    if not (path := folder / "spambase" / "spambase.data").exists():
        return None
    table = np.loadtxt(path, delimiter=",")
    return _arrays(table[:, :-1], table[:, -1])


def _edges(folder: Path) -> dict[str, Any] | None:
    """The edges of all MNIST images; the official test images are held out."""
    if not (folder / "mnist" / "train-images-idx3-ubyte.gz").exists():
        return None
    images, labels, test_images, test_labels = (
        _idx(folder / "mnist" / f"{part}-ubyte.gz")
        for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    )
    test = test_images.reshape(len(test_images), -1).astype(np.float64), test_labels.astype(np.int64)
    pixels = images.reshape(len(images), -1)
    return _arrays(pixels, labels, bounds=(0.0, 255.0), test=test, settings={"data.transform": EDGES})


def _idx(path: Path) -> NDArray[np.uint8]:
    raw = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


SETS: dict[str, Callable[[Path], dict[str, Any] | None]] = {
    "digits": _digits,
    "HAR": _activity,
    "HAR, ranges declared": partial(_in_ranges, _activity),
    "image segmentation": _segmentation,
    "image segmentation, ranges declared": partial(_in_ranges, _segmentation),
    "Covertype": _covertype,
    "Spambase": _spambase,
    "MNIST, edges": _edges,
}

PAGE = """# A shared mean: measured

*Reference* · [all pages](../index.md) · [why](../decisions/0053-a-shared-mean.md)

`python benchmarks/shared_mean.py --page docs/results/shared-mean.md` writes this page. Ten devices share each data set
in simulation, alike or with `dirichlet(0.25)`, at δ = 1e-5. The two runs of a pair have the same records, and differ in
`learner.centre` alone. Gains are in points of accuracy, with a 95 % interval over the seeds, whose number is in
parentheses.

{table}

No ranges are declared for tables, except in the rows that say so. HAR has 54 statistics per window, and the official
test persons are held out. Covertype has 1,000 records per device. Digits and MNIST have the range of their pixels, and
MNIST has all images, of which the official test images are held out. What is empty or absent has not been measured.
"""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("SOTTOVOCE_DATA", "../shared/data"))
    parser.add_argument("data", type=Path, nargs="?", default=folder, help="folder that contains the data sets")
    parser.add_argument("--set", choices=list(SETS), help="the only data set to measure")
    parser.add_argument("--learner", choices=LEARNERS, help="the only learner to measure")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=Path, help="file with one accuracy per line; runs that it has are not repeated")
    parser.add_argument("--page", type=Path, help="write the page to this file instead of printing the table")
    parser.add_argument("--smoke", action="store_true", help="run only one data set, learner, budget and seed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
