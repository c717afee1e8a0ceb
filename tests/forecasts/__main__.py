"""`make forecasts`: measure the home's forecast on homes that its settings have not seen, into docs/results.

`make public-model` fits the public model again, and writes the file in the home's package.

python -m tests.forecasts fit | measure
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.forecast import HALF_HOURS
from sottovoce_home.forecast import Errors, HomeForecast
from sottovoce_home.public_model import PublicModel

from tests.forecasts.fit import FIRST_HALF_HOUR, fit
from tests.integration.test_feed_london import LONDON

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "home" / "sottovoce_home" / "public_model.toml"
PAGE = ROOT / "docs" / "results" / "home-forecast.md"
SCOTLAND = LONDON.parents[1] / "edrp_scotland" / "edrp_scotland.npz"
SCOTLAND_FIRST_DAY = 14_304
"""Number of 1 March 2009."""

_DAYS = 35
_DRAWS = 4
_LEAST_WH = 20  # mean load per half hour of a home that is lived in
_MOST_MISSING = 0.02

HEADER = """\
# The public forecasting model. `make public-model` writes this file, and `make forecasts` measures the model.
#
# Data: SmartMeter Energy Consumption Data in London Households (Low Carbon London), UK Power Networks, London
# Datastore, https://data.london.gov.uk/dataset/smartmeter-energy-use-data-in-london-households
# Licence: Creative Commons Attribution 4.0. The numbers below are derived from these data: quantile regressions on the
# half-hourly readings of 150 homes in 2013. They contain no reading and no name of a home.
#
# The homes of Scotland (Energy Demand Research Project, UK Data Service 7591) are used for measuring only. Their
# licence permits no commercial use without permission, so no number here comes from them.
#
# Error on homes that the model has not seen, as a share of their mean load: docs/results/home-forecast.md.
# Loads are u = ln(1 + Wh/50); the features are in the order in which public_model.py computes them.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Homes on which forecasts are measured.

    Attributes:
        name: name for the page.
        wh: int64[homes, days, 48] in Wh, -1 where one is missing.
        first_day: number of the first day.
    """

    name: str
    wh: NDArray[np.int64]
    first_day: int


def london(offset: int) -> NDArray[np.int64]:
    """Return the homes of London with even (0) or odd (1) numbers, int64[homes, half hours]."""
    wh: NDArray[np.int64] = np.load(LONDON)["wh"].astype(np.int64)[offset::2]
    return wh


def write_model(tables: Mapping[str, Any], path: Path) -> None:
    """Write the tables of a public model with their description."""
    lines = [HEADER]
    for name in ("first_day", "horizon"):
        lines += [f"[{name}]", *(_row(key, value) for key, value in tables[name].items()), ""]
    for stage in tables["stage"]:
        lines += ["[[stage]]", f"days = {stage['days']}"]
        lines += [*(_row(key, value) for key, value in stage.items() if key != "days"), ""]
    path.write_text("\n".join(lines))


def _row(key: str, values: NDArray[np.float64]) -> str:
    return f"{key} = [{', '.join(f'{value:.4f}' for value in values)}]"


def walk(population: Population, model: PublicModel, seed: int) -> Iterator[list[Errors]]:
    """Yield each home's errors by day, from its second day on, beginning on a random day of the data."""
    rng = np.random.default_rng(seed)
    for home in population.wh:
        start = int(rng.integers(0, len(home) - _DAYS + 1))
        wh = home[start : start + _DAYS]
        if (wh < 0).mean() > _MOST_MISSING or wh.mean() < _LEAST_WH:
            continue
        forecast, days = HomeForecast(model, population.first_day + start), []
        for day in wh:
            forecast.learn(day)
            days += list(forecast.recent)[-1:]
        yield days


def measure(population: Population, model: PublicModel) -> dict[str, float]:
    """Return the figures of one population."""
    homes = [days for seed in range(_DRAWS) for days in walk(population, model, seed)]
    by_day = [sum((days[i] for days in homes), Errors()) for i in range(_DAYS - 1)]
    later = [sum(days[1:], Errors()) for days in homes]
    whole = sum(later, Errors())
    ratios = np.array([each.served / max(min(each.persistence, each.own), 1.0) for each in later])
    covered = sum(by_day, Errors())
    return {
        "homes": len(homes),
        **{f"day_{i}": by_day[i - 2].day_served / by_day[i - 2].day_load for i in (2, 3, 7, 14, 28)},
        **{f"yesterday_{i}": by_day[i - 2].yesterday / by_day[i - 2].day_load for i in (2, 3, 7, 14, 28)},
        "covered": covered.inside / covered.read,
        "covered_2": by_day[0].inside / by_day[0].read,
        "next": whole.served / whole.load,
        "persistence": whole.persistence / whole.load,
        "own": whole.own / whole.load,
        "next_2": by_day[0].served / by_day[0].load,
        "persistence_2": by_day[0].persistence / by_day[0].load,
        "own_2": by_day[0].own / by_day[0].load,
        "worst": float(ratios.max()),
        "within": float((ratios <= 1.02).mean()),
    }


def page(figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return the page with these figures, by population."""
    names = list(figures)

    def row(title: str, *values: str) -> str:
        return f"| {title} | " + " | ".join(values) + " |"

    def percent(key: str) -> list[str]:
        return [f"{100 * figures[name][key]:.1f}" for name in names]

    head = [row("", *names), row("---", *["---"] * len(names))]
    ahead = [
        line
        for day in (2, 3, 7, 14, 28)
        for line in (
            row(f"day {day}: forecast", *percent(f"day_{day}")),
            row(f"day {day}: same time yesterday", *percent(f"yesterday_{day}")),
        )
    ]
    return "\n".join(
        [
            "# A home's forecast without a fleet: measured",
            "",
            "*Reference* · [all pages](../index.md) · how to use it: [forecast](../how-to/forecast.md)",
            "",
            "`make forecasts` writes this page. It walks homes day by day, with the code that a home runs, from a",
            f"random day of the data on, for {_DAYS} days each. The public model was fitted to the 150 London homes",
            "with an even number, and all settings were chosen on these. The homes below were not used for any choice.",
            f"A home that uses less than {_LEAST_WH} Wh per half hour, or misses more than {100 * _MOST_MISSING:.0f} %",
            "of its readings, is left out.",
            "",
            "Mean absolute error as a percentage of the mean load, over all homes:",
            "",
            *head,
            row("home-walks", *(f"{figures[name]['homes']:.0f}" for name in names)),
            *ahead,
            row("half hour in progress, day 2: forecast", *percent("next_2")),
            row("day 2: persistence", *percent("persistence_2")),
            row("day 2: the home's own model", *percent("own_2")),
            row(f"half hour in progress, days 3 to {_DAYS}: forecast", *percent("next")),
            row(f"days 3 to {_DAYS}: persistence", *percent("persistence")),
            row(f"days 3 to {_DAYS}: the home's own model", *percent("own")),
            "",
            "Half hours between P10 and P90, which should be 80 %, and each home's error in the half hour in progress",
            f"on days 3 to {_DAYS}, compared with the better of persistence and its own model:",
            "",
            *head,
            row("between P10 and P90, %", *percent("covered")),
            row("the same on day 2, %", *percent("covered_2")),
            row("worst home", *(f"{figures[name]['worst']:.3f}" for name in names)),
            row("homes within 2 %, %", *percent("within")),
            "",
            "The day ahead is forecast at midnight UTC. *Own model* is a ridge regression on the last four half hours",
            "and the time of day, fitted to the home's earlier days.",
            "",
        ]
    )


def main() -> int:
    """Fit or measure, as the module describes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("fit", "measure"))
    if not LONDON.exists():
        print(f"the London data are needed at {LONDON}")
        return 1
    if parser.parse_args().what == "fit":
        write_model(fit(london(0)), MODEL)
        return 0
    began, model = time.monotonic(), PublicModel.load()
    scotland = np.load(SCOTLAND)["wh"].astype(np.int64).reshape(622, -1, HALF_HOURS)[::4]
    figures = {
        each.name: measure(each, model)
        for each in (
            Population("London", london(1).reshape(150, -1, HALF_HOURS), FIRST_HALF_HOUR // HALF_HOURS),
            Population("Scotland", scotland, SCOTLAND_FIRST_DAY),
        )
    }
    PAGE.write_text(page(figures))
    print(f"{PAGE}: written after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
