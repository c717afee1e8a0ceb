"""`make street`: homes with made-up meters compute one secure sum, as real agents, and the result becomes a page.

The page shows the result beside the truth, which only this harness knows, because it made the meters up.

python -m tests.street [--homes N] [--epsilon E] [--seed S] [--out FILE]
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sottovoce_lab.testbed import processes
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import build_run_spec
from sottovoce_operator.estimate import Estimate
from sottovoce_operator.results.estimates import estimates
from sottovoce_operator.results.page import result_page
from sottovoce_operator.results.source import Result, read_from_file
from sottovoce_operator.results.verification import verify_file

from tests.support.loads import Street, draw_street

PERIOD, CYCLES = 2.0, 40
PRODUCTS = ("monthly-profile", "flags")
_YEAR = 2025
Floats = NDArray[np.float64]


def street_plan(street: Street, epsilon: float, seed: int, directory: Path) -> Plan:
    """Return the plan of a fleet of these homes, whose agents are kept in a directory."""
    homes, meters = len(street.wh), directory / "meters.npz"
    first = (date(_YEAR, 1, 1) - date(1970, 1, 1)).days
    np.savez(meters, wh=street.wh.reshape(homes, -1))
    keys = {
        "learner": "average", "agents": homes, "data": f"meters:{meters}#task=days&first={_YEAR}-01-01",
        "topology": "full", "epsilon": epsilon, "cycles": CYCLES, "period": PERIOD, "seed": seed,
        "data.windows": [first, first + street.wh.shape[1] - 1],
        "learner.products": list(PRODUCTS), "privacy.noise": "cell", "privacy.cell.min": max(4, homes * 2 // 3),
        "privacy.cell.colluding": max(1, homes // 10), "testbed.directory": str(directory / "fleet"),
    }  # fmt: skip
    return plan(build_run_spec(keys, "make street").options())


def true_values(street: Street) -> dict[str, Floats]:
    """Return the true values of each product, which only this harness can compute."""
    days = street.wh.mean(axis=0) / 1000
    months = np.array([(date(_YEAR, 1, 1) + timedelta(days=i)).month for i in range(len(days))])
    return {
        "monthly-profile": np.concatenate([days[months == month].mean(axis=0) for month in range(1, 13)]),
        "annual-profile": days.mean(axis=0),
        "annual-mean": np.array([days.mean(axis=0).sum()]),
        "flags": np.array([float(street.pv.sum()), float(street.ev.sum())]),
    }


def collect(fleet: Path) -> tuple[Result, list[Path]]:
    """Return the result, verified on each device that holds it, and these devices' state directories."""
    states = [state for state in sorted(fleet.glob("agent-*")) if any((state / "results").glob("*.json"))]
    results = []
    for state in states:
        (file,) = (state / "results").iterdir()
        verify_file(file, state / "identity" / "ca.pem")
        results.append(read_from_file(file))
    if not results:
        raise SystemExit("make street: no agent has a result; the logs are those of the fleet above")
    newest = max(results, key=lambda result: len(result.document.confirmations))
    if len({result.document.opened.digest for result in results}) != 1:
        raise SystemExit("make street: the agents hold different results")
    return replace(newest, reason=None), states


def main() -> int:
    """Run the fleet, write the page, and print what it cost."""
    parser = argparse.ArgumentParser(prog="make street", description=__doc__)
    parser.add_argument("--homes", type=int, default=60)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("dist/street.html"))
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="street-") as temporary:
        directory = Path(temporary)
        street = draw_street(options.homes, options.seed)
        planned = street_plan(street, options.epsilon, options.seed, directory)
        report = processes.run(planned, Watcher()).document()
        result, states = collect(directory / "fleet")
        seconds, truths = time.monotonic() - started, true_values(street)
        products = [replace(each, truth=truths[each.name]) for each in estimates(result.document.opened)]
        facts = {
            **{f"error of {each.name}": describe_error(each, truths[each.name]) for each in products},
            "devices": f"{len(states)} of {options.homes} agents hold this result, with enough signatures to prove it",
            "traffic": f"{report['traffic']['wire_bytes'] / options.homes / 1024:.0f} KiB per home",
            "memory": f"{report['resources']['rss_mib_median']:.0f} MiB per agent",
            "time": f"{seconds:.0f} s",
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(result_page(result, products, facts), encoding="utf-8")
    for name, text in facts.items():
        print(f"{name:<24} {text}")
    print(f"{'page':<24} {options.out}")
    return 0


def describe_error(product: Estimate, truth: Floats) -> str:
    """Return the root mean squared error of a product and of its public prior."""
    errors = [root_mean_square(product.values - truth)]
    errors += [] if product.prior is None else [root_mean_square(product.prior - truth)]
    if product.unit == "homes":
        return f"{errors[0]:.1f} homes"
    scale = float(truth.mean())
    fleet, *prior = [f"{error / scale:.1%} of the mean load" for error in errors]
    return fleet + "".join(f"; the public prior alone: {text}" for text in prior)


def root_mean_square(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


if __name__ == "__main__":
    sys.exit(main())
