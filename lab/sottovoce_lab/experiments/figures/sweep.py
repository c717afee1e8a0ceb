"""A grid of simulations, cell by cell: data set × series × ε × k, each over several seeds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sottovoce.data import DataSet, load

from sottovoce_lab.experiments.figures.specification import Extent, FigureSpec
from sottovoce_lab.experiments.fleet import Fleet, assembled
from sottovoce_lab.experiments.gradient_walk import walks
from sottovoce_lab.experiments.measuring import Meter
from sottovoce_lab.experiments.run import run_fleet
from sottovoce_lab.experiments.seeds import Stream, generator
from sottovoce_lab.experiments.settings import Settings, settings
from sottovoce_lab.testbed.progress import Watcher

_MADE = ("synthetic", "two-gaussians")


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where a cell is. `k` is 0 for a series that does not depend on it."""

    data: str
    series: str
    epsilon: float
    k: int


@dataclass(slots=True)
class Cell:
    """Final accuracies, one a run; and the accuracy over cycles of each run, where there is one."""

    accuracies: list[float] = field(default_factory=list)
    curves: list[list[tuple[int, float]]] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Over runs."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float:
        """Over runs."""
        return float(np.std(self.accuracies))

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Cycle and accuracy, averaged over runs."""
        return [
            (points[0][0], float(np.mean([accuracy for _, accuracy in points])))
            for points in zip(*self.curves, strict=True)
        ]


Cells = dict[Place, Cell]


def sweep(spec: FigureSpec, extent: Extent, folder: Path, say: Callable[[str], None]) -> Cells:
    """Run every simulation of a figure. What is not there in the data folder is left out, and said.

    Args:
        spec: the figure.
        extent: how much of it.
        folder: where data sets are.
        say: is told how it goes.

    Raises:
        DataError: a data set is there but cannot be read.
    """
    cells: Cells = {}
    for name, keys in spec.data.items():
        source = anchored(str(keys["data.source"]), folder)
        if source is None:
            say(f"{name}: left out, {keys['data.source']} is not in {folder}")
            continue
        data = None if source in _MADE else load(source)
        common = {**extent.set, **keys, "data.source": source, "privacy.allow_unproved": True}
        if name in extent.most_agents:
            common["agents"] = extent.most_agents[name]
        for label, series in spec.series.items():
            for k in extent.k if series.k else [0]:
                values = {**common, **series.set, **dict.fromkeys(series.k, k)}
                for seed in range(extent.runs):
                    _fill(cells, name, label, k, extent.epsilon, {**values, "seed": seed}, data)
                say(f"{name}: {series.label}" + (f", k = {k}" if series.k else ""))
    return cells


def anchored(source: str, folder: Path) -> str | None:
    """A data SPEC with its path inside the data folder; None when nothing is there."""
    kind, colon, rest = source.partition(":")
    if not colon:
        return source
    location, hash_sign, options = rest.partition("#")
    path = folder / location
    return f"{kind}:{path}{hash_sign}{options}" if path.exists() else None


def _fill(
    cells: Cells,
    data_name: str,
    series: str,
    k: int,
    epsilons: list[float],
    values: Mapping[str, Any],
    data: DataSet | None,
) -> None:
    for epsilon, accuracy, curve in _measured(values, epsilons, data):
        cell = cells.setdefault(Place(data_name, series, epsilon, k), Cell())
        cell.accuracies.append(accuracy)
        cell.curves.append(curve)


def _measured(
    values: Mapping[str, Any], epsilons: list[float], data: DataSet | None
) -> Iterator[tuple[float, float, list[tuple[int, float]]]]:
    """ε, final accuracy and curve for each ε."""
    chosen = [_settings(values, epsilon) for epsilon in epsilons]
    if chosen[0].learner.name == "gradient-walk":  # walks at different ε advance side by side
        fleet = assembled(chosen[0], data)
        accuracies = _walked(fleet, epsilons)
        yield from ((epsilon, accuracy, []) for epsilon, accuracy in zip(epsilons, accuracies, strict=True))
        return
    for one in chosen:
        document, _ = run_fleet(assembled(one, data), Watcher())
        curve = [(point["cycle"], point["accuracy_mean"]) for point in document["curve"]]
        yield one.epsilon, document["final"]["accuracy_mean"], curve


def _walked(fleet: Fleet, epsilons: list[float]) -> list[float]:
    walk = walks(fleet, epsilons)
    for _ in walk.passes():
        pass
    meter = Meter(fleet, generator(fleet.settings.seed, Stream.MEASURING))
    return [meter.final(walk.weights[[i]], np.zeros(1, dtype=np.int64)).accuracy_mean for i in range(len(epsilons))]


def _settings(values: Mapping[str, Any], epsilon: float) -> Settings:
    return settings({**values, "epsilon": epsilon}, "figure")
