"""Errors of a fleet's products from one secure sum at device level, beside those that `sottovoce plan` expects.

The bounds and the declared biases come from public homes alone: the daily energies of homes in London in 2012, spread
over each day as by homes in middle Scotland, while the public facts are replaced by those of another place. The errors
are measured on 300 other homes in London in 2013. Vectors, noise and estimates are the shipped ones; masks are left
out, because they cancel. Of each fleet, 30 % are silent. If the data sets are missing, the program prints a message and
exits with status 0.

    python benchmarks/products.py [DATA] [--seeds N] [--smoke]   print docs/results/measured/products.csv as a table
    python benchmarks/products.py [DATA] --declare              print declared.toml of the operator's package
"""

import argparse
import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from public_homes import LEAP_YEAR, PublicData, add_solar, charge_car, read_public_data
from sottovoce.data.feed.records import daily_loads
from sottovoce.data.products import FLEETS, RULES, Products, PublicHomes, make_products, read_public
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, SeededNoise
from sottovoce_operator.estimate import Estimate
from sottovoce_operator.products import Opened, estimate_products, root_mean_square
from sottovoce_operator.products.counts import DAYS_A_YEAR, QUANTILES

Floats = NDArray[np.float64]
Days = NDArray[np.int64]
Arrays = dict[str, Floats]
EPSILON, DELTA, COLLUDING, THRESHOLD, SILENT = 1.0, 1e-5, 0.1, 0.7, 0.3
TESTED = date(2013, 1, 1).toordinal() - date(1970, 1, 1).toordinal()
CASES = (("monthly-profile",), ("daily-means",), ("flags",), ("annual-quantiles",))
_TURNING = 0.25  # a mean over homes changes less from month to month than one house


@dataclass(frozen=True)
class Homes:
    """Homes whose loads are known.

    Attributes:
        loads: for each home, float64[days, 48] in kWh, without gaps.
        days: for each home, the numbers of its days.
        first: number of the first day of the year.
        length: number of days in the year.
    """

    loads: list[Floats]
    days: list[Days]
    first: int
    length: int

    def rows(self, products: Products) -> Floats:
        """Return each home's vector, float64[homes, P]."""
        return np.array([products.row(loads, days) for loads, days in zip(self.loads, self.days, strict=True)])

    def truth(self) -> Arrays:
        """Return each home's own values of every product, float64[homes, …], NaN where it has no reading."""
        whole = np.full((len(self.loads), self.length, 48), np.nan)
        for home, loads, days in zip(whole, self.loads, self.days, strict=True):
            home[days - self.first] = loads
        months = np.array([date.fromordinal(self.first + n + 719_163).month for n in range(self.length)])
        with np.errstate(all="ignore"):
            monthly = np.stack([np.nanmean(whole[:, months == month], axis=1) for month in range(1, 13)], axis=1)
            daily = whole.sum(axis=2)
            return {
                "monthly-profile": monthly.reshape(len(whole), -1),
                "annual-profile": np.nanmean(whole, axis=1),
                "annual-mean": np.nanmean(daily, axis=1)[:, np.newaxis],
                "daily-means": daily,
            }


def true_values(truth: Arrays, chosen: NDArray[np.int64], product: str) -> Floats:
    """Return the true value of a product for these homes."""
    if product == "annual-quantiles":
        own: Floats = DAYS_A_YEAR * np.quantile(truth["annual-mean"][chosen, 0], QUANTILES)
        return own
    if product == "annual-profile":  # as the mean of months, so that a home with gaps weighs the same in both
        profile: Floats = true_values(truth, chosen, "monthly-profile").reshape(12, 48).mean(axis=0)
        return profile
    means: Floats = np.nanmean(truth[product][chosen], axis=0)
    return means


def main() -> None:
    """Print the table, or the declared biases."""
    options = _options()
    if not options.data.is_dir():
        print(f"skipped: no data sets in {options.data}; specify their folder, or set SOTTOVOCE_DATA")
        return
    data = read_public_data(options.data)
    if options.declare:
        declare(data)
    else:
        seeds = 2 if options.smoke else options.seeds
        london = read_london(options.data)
        report_rules(london, data)
        report(london, data, seeds, (300,) if options.smoke else (300, 1_000, 10_000))


def declare(data: PublicData) -> None:
    """Print the biases of all products, without noise, on public homes that differ from the public facts.

    Each is the root mean square over the places of `elsewhere` and the fleets of `_fleets`.
    """
    homes = _public_homes(data)
    truth = homes.truth()
    sys.stdout.write(
        "# Written by benchmarks/products.py --declare. Biases relative to the mean, by size of the fleet.\n"
    )
    for size in FLEETS:
        sys.stdout.write(f"\n[{size}]\n")
        found: dict[str, list[float]] = {}
        for case, facts in itertools.product(CASES, elsewhere(data)):
            if case == ("flags",):
                continue
            products = _with_facts(make_products(case, (), (), "gb-1", size), facts)
            rows = homes.rows(products)
            fleets = _fleets(homes, truth)  # a changed fleet has different quantiles, not a bias
            for members in fleets[:1] if case == ("annual-quantiles",) else fleets:
                count = len(members)
                days = homes.first, homes.first + homes.length - 1
                opened = Opened(products, rows[members].sum(axis=0), count, 0.0, days, count, size)
                for estimate in estimate_products(opened):
                    right = true_values(truth, members, estimate.name)
                    scale = right if estimate.name == "annual-quantiles" else right.mean()
                    found.setdefault(estimate.name, []).append(root_mean_square((estimate.values - right) / scale))
        for product, biases in found.items():
            sys.stdout.write(f"{product} = {root_mean_square(np.array(biases)):.4f}\n")


def elsewhere(data: PublicData) -> list[PublicHomes]:
    """Return the public facts as if they came from another place: a shape from France, and a milder season.

    The French house is recorded by the hour; its shape is used as recorded, and interpolated.
    """
    shipped = read_public("gb-1")
    season = tuple(0.6 * value for value in shipped.season)
    recorded = np.repeat(data.france.reshape(24, 2).mean(axis=1), 2)
    return [msgspec.structs.replace(shipped, shape=tuple(x.tolist()), season=season) for x in (data.france, recorded)]


def _fleets(homes: Homes, truth: Arrays) -> list[NDArray[np.int64]]:
    """Return fleets of other homes: all, more that heat at night, and more that use much."""
    everyone = np.arange(len(homes.loads))
    night = [loads[:, :14].sum() / loads.sum() for loads in homes.loads]
    heated = np.argsort(night)[-len(everyone) // 10 :]
    large = np.argsort(truth["annual-mean"][:, 0])[-len(everyone) // 2 :]
    return [everyone, np.concatenate([everyone, heated, heated]), np.concatenate([everyone, large])]


def report(london: Homes, data: PublicData, seeds: int, fleets: Sequence[int]) -> None:
    """Print one line for each product and size of the fleet."""
    print(f"device level, ε = {EPSILON:g} a year, δ = {DELTA:g}, {SILENT:.0%} silent; {seeds} seeds; % of the mean")
    print(f"{'homes':>7} {'product':<20}{'error':>8}{'worst':>8}{'planned':>9}{'prior':>8}{'bias':>7}{'covered':>9}")
    truth = london.truth()
    for fleet in fleets:
        size = max(bound for bound in FLEETS if bound <= fleet)
        for case in CASES:
            products = make_products(case, (), ("pv", "ev"), "gb-1", size)
            if case == ("flags",):
                report_flags(products, data, fleet, seeds)
                continue
            rows = london.rows(products)
            found: dict[str, list[tuple[Estimate, Floats]]] = {}
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                members = rng.permutation(len(rows)) if fleet <= len(rows) else rng.integers(0, len(rows), fleet)
                members = members[:fleet]
                heard = members[: round(fleet * (1 - SILENT))]
                for estimate in estimate_products(release(products, rows[heard], london, fleet, seed, size)):
                    right = true_values(truth, members, estimate.name)
                    found.setdefault(estimate.name, []).append((estimate, right))
            for product, pairs in found.items():
                _print_line(fleet, product, pairs)


def report_rules(london: Homes, data: PublicData) -> None:
    """Print the errors of the rules for flags on homes in London, with injected charging and simulated solar arrays.

    The arrays are simulated for spring alone, so are the homes' days here.
    """
    rng, spring = np.random.default_rng(4), TESTED + np.arange(59, 151)
    plain, charged, solar = [], [], []
    for loads, days in zip(london.loads, london.days, strict=True):
        plain.append([rule(loads, days) for rule in (RULES["ev"], RULES["pv"])])
        charged.append(RULES["ev"](charge_car(loads, rng), days))
        kept = np.isin(days, spring)
        if kept.sum() == len(spring):
            solar.append(RULES["pv"](add_solar(loads[kept], data.solar, rng), days[kept]))
    false = np.mean(plain, axis=0)
    print(f"rule ev, {len(charged)} homes in London: {false[0]:.1%} false alarms, {np.mean(charged):.1%} found")
    print(f"rule pv, {len(solar)} homes in London: {false[1]:.1%} false alarms, {np.mean(solar):.1%} found")


def report_flags(products: Products, data: PublicData, fleet: int, seeds: int) -> None:
    """Print the error of counts among the Scottish homes, of which a fifth got a car and a fifth a solar array."""
    homes = _flagged(data)
    rows, owners = homes[0].rows(products), homes[1]
    pairs = []
    for seed in range(seeds):
        members = np.random.default_rng(seed).integers(0, len(rows), fleet)[: round(fleet * (1 - SILENT))]
        opened = release(products, rows[members], homes[0], fleet, seed, 300)
        pairs += [(estimate, owners[members].sum(axis=0)) for estimate in estimate_products(opened)]
    errors = np.array([estimate.values - right for estimate, right in pairs])
    covered = np.mean([abs(e.values - right) <= 1.96 * e.errors for e, right in pairs])
    planned = np.mean([estimate.error for estimate, _ in pairs])
    print(
        f"{fleet:>7} {'flags (homes)':<20}{np.sqrt(np.mean(errors**2)):>8.1f}{abs(errors).max():>8.1f}{planned:>9.1f}"
        f"{'-':>8}{errors.mean():>7.1f}{covered:>9.0%}"
    )


def release(products: Products, rows: Floats, homes: Homes, fleet: int, seed: int, size: int) -> Opened:
    """Return the opened sum of these homes, out of a fleet of `fleet`."""
    mechanism = cell_mechanism(products, fleet)
    noise, total = SeededNoise(seed), np.zeros(products.size)
    for row in rows:
        total += mechanism.apply(iter([row[np.newaxis]]), fleet, noise) * mechanism.step
    sigma = mechanism.share(fleet) * mechanism.step * len(rows) ** 0.5
    return Opened(products, total, len(rows), sigma, (homes.first, homes.first + homes.length - 1), fleet, size)


def cell_mechanism(products: Products, fleet: int) -> CellMechanism:
    """Return the mechanism of a cell with the whole fleet."""
    cell = Cell(fleet, fleet, round(COLLUDING * fleet), THRESHOLD)
    return MeanTerms("average", products, cell).cell_mechanism(Budget(EPSILON, DELTA, "device", "add-remove"))


def read_london(folder: Path) -> Homes:
    """Return the 300 homes in London that no setting and no public fact has seen."""
    wh = np.load(folder / "lcl_halfhourly_2013/lcl_halfhourly_2013.npz")["wh"].astype(np.int64)
    homes = [daily_loads(home.reshape(1, -1, 48)) for home in wh]
    return Homes([loads for loads, _ in homes], [TESTED + days for _, days in homes], TESTED, 365)


def _public_homes(data: PublicData) -> Homes:
    """Return homes with daily energies from London in 2012 and days as in a Scottish home of about the same energy.

    The Scottish readings are from spring alone, so the shape changes over the year as the French house's, only less.
    """
    months = np.array([date.fromordinal(LEAP_YEAR + n + 719_163).month - 1 for n in range(366)])
    turning = 1 + _TURNING * (data.french_months / data.french_months.mean(axis=0) - 1)
    rng, energies = np.random.default_rng(2), data.scotland.mean(axis=1).sum(axis=1)
    order, loads, days = np.argsort(energies), [], []
    for daily in data.london:
        if np.isfinite(daily).mean() < 0.95:  # the mean of its own days would lack a season
            continue
        present = np.flatnonzero(np.isfinite(daily))
        rank = int(np.searchsorted(energies[order], daily[present].mean())) + int(rng.integers(-25, 26))
        donor = data.scotland[order[np.clip(rank, 0, len(order) - 1)]]
        shapes = donor[rng.integers(0, len(donor), len(present))]
        totals = shapes.sum(axis=1, keepdims=True)
        shapes = np.divide(shapes, totals, out=np.full_like(shapes, 1 / 48), where=totals > 0)
        shapes *= turning[months[present]]
        loads.append(shapes / shapes.sum(axis=1, keepdims=True) * daily[present, np.newaxis])
        days.append(LEAP_YEAR + present)
    return Homes(loads, days, LEAP_YEAR, 366)


def _flagged(data: PublicData) -> tuple[Homes, Floats]:
    """Return Scottish homes of which a fifth charge a car and a fifth have a solar array, and which have which."""
    rng, first = np.random.default_rng(5), date(2009, 3, 1).toordinal() - date(1970, 1, 1).toordinal()
    owners = rng.random((len(data.scotland), 2)) < 0.2
    loads = []
    for home, (solar, car) in zip(data.scotland, owners, strict=True):
        charged = charge_car(home, rng) if car else home
        loads.append(add_solar(charged, data.solar, rng) if solar else charged)
    return Homes(loads, [first + np.arange(92)] * len(loads), first, 92), owners.astype(np.float64)


def _print_line(fleet: int, product: str, pairs: list[tuple[Estimate, Floats]]) -> None:
    scale = [right if product == "annual-quantiles" else right.mean() for _, right in pairs]
    errors = [(estimate.values - right) / mean for (estimate, right), mean in zip(pairs, scale, strict=True)]
    planned = [root_mean_square(estimate.errors / mean) for (estimate, _), mean in zip(pairs, scale, strict=True)]
    prior = [
        root_mean_square((estimate.prior - right) / mean)
        for (estimate, right), mean in zip(pairs, scale, strict=True)
        if estimate.prior is not None
    ]
    covered = np.mean([abs(e.values - right) <= 1.96 * e.errors for e, right in pairs])
    sizes = [root_mean_square(error) for error in errors]
    level = 100 * np.mean(errors)
    error = root_mean_square(np.array(sizes)) if product == "annual-mean" else np.mean(sizes)
    print(
        f"{fleet:>7} {product:<20}{100 * error:>8.1f}{100 * max(sizes):>8.1f}{100 * np.mean(planned):>9.1f}"
        f"{100 * np.mean(prior):>8.1f}{level:>7.1f}{covered:>9.0%}"
    )


def _with_facts(products: Products, facts: PublicHomes) -> Products:
    blocks = tuple(replace(block, public=facts) for block in products.blocks)  # type: ignore[type-var]
    return replace(products, blocks=blocks)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("SOTTOVOCE_DATA", "../shared/data"))
    parser.add_argument("data", type=Path, nargs="?", default=folder, help="folder that contains the data sets")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--declare", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
