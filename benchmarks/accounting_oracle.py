"""Compare our ε for sampled Gaussian releases, over a grid of cases, with ε from dp-accounting's loss distributions.

The program computes two ratios for every case whose ε is in [0.01, 50]. The ratio of our ε to dp-accounting's upper
estimate should be at most 1.05; it is below 1 where dp-accounting uses the coarser grid. The ratio of our ε to
dp-accounting's lower estimate must never be below 1. The program prints the extreme ratios. dp-accounting does not
support batches of fixed size; see docs/decisions/0012-accounting.md.

    python benchmarks/accounting_oracle.py [--smoke]
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator

from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism
from sottovoce.privacy.accounting.accountant import composed_epsilon
from sottovoce.privacy.accounting.pairs import AddedPair, Pair, RemovedPair, ReplacedPair

RATES, NOISES = (0.001, 0.01, 0.1, 0.5, 1.0), (0.4, 0.6, 1.0, 2.0, 5.0, 20.0)
RELEASES, DELTAS = (1, 10, 100, 1000, 10**4, 10**5), (1e-3, 1e-5, 1e-7, 1e-10)
RELATIONS = {"add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace-one": NeighboringRelation.REPLACE_ONE}
Case = tuple[str, float, float, int]


def our_epsilon(relation: str, rate: float, noise: float, releases: int, delta: float) -> float:
    """Return our ε, the larger of the values for the two directions."""
    pairs: list[Pair] = (
        [ReplacedPair(rate, noise)] if relation == "replace-one" else [RemovedPair(rate, noise), AddedPair(rate, noise)]
    )
    return max(composed_epsilon({pair: releases}, delta) for pair in pairs)


def loss_distribution(case: Case, interval: float, upward: bool) -> PrivacyLossDistribution:
    """Return dp-accounting's privacy loss distribution, rounded up or down."""
    relation, rate, noise, releases = case
    single = from_gaussian_mechanism(
        noise,
        pessimistic_estimate=upward,
        value_discretization_interval=interval,
        log_mass_truncation_bound=-70,
        sampling_prob=rate,
        use_connect_dots=upward,
        neighboring_relation=RELATIONS[relation],
    )
    return single.self_compose(releases)


def practical_deltas(case: Case) -> Iterator[tuple[float, float]]:
    """Yield δ and our ε for every δ at which our ε is in [0.01, 50]."""
    for delta in DELTAS:
        if 0.01 <= (epsilon := our_epsilon(*case, delta)) <= 50:
            yield delta, epsilon


def main() -> int:
    """Print the extreme ratios; return 1 if any ratio is out of bounds, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    grid = (RELATIONS, (0.01, 1.0), (1.0, 5.0), (1, 100)) if smoke else (RELATIONS, RATES, NOISES, RELEASES)
    uppers: list[tuple[float, Case, float, float]] = []
    lowers: list[tuple[float, Case, float, float]] = []
    slowest = 0.0
    for case in itertools.product(*grid):
        started = time.perf_counter()
        answers = list(practical_deltas(case))
        slowest = max(slowest, (time.perf_counter() - started) / len(DELTAS))
        if not answers:
            continue
        _, rate, noise, releases = case
        # The interval must be fine enough for the spread of a single loss, and coarse enough to finish in time.
        interval = max(min(1e-3, rate / noise / 8, answers[-1][1] / 100), answers[-1][1] / 2e5)
        upper = loss_distribution(case, interval, upward=True)
        lower = (
            loss_distribution(case, min(interval, answers[0][1] / releases / 20), upward=False)
            if releases <= 100
            else None
        )
        for delta, epsilon in answers:
            oracle_epsilon = upper.get_epsilon_for_delta(delta)
            uppers.append((epsilon / oracle_epsilon if oracle_epsilon > 0 else 1.0, case, delta, oracle_epsilon))
            oracle_lower = lower.get_epsilon_for_delta(delta) if lower is not None else 0.0
            if oracle_lower > 0:
                lowers.append((epsilon / oracle_lower, case, delta, oracle_lower))
    for name, ratios in (("upper estimate", sorted(uppers)), ("lower estimate", sorted(lowers))):
        print(f"ours / dp-accounting's {name}: {len(ratios)} cases, {ratios[0][0]:.6f} to {ratios[-1][0]:.6f}")
        for ratio, case, delta, oracle_epsilon in (*ratios[:4], *ratios[-4:]):
            print(f"  {ratio:.6f}  {case} δ = {delta:g}: theirs {oracle_epsilon:.6g}")
    print(f"slowest of our computations: {slowest:.2f} s")
    return 0 if max(uppers)[0] <= 1.05 and min(lowers)[0] >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
