"""`make cells`: bugs put into the code of secure sums, and which attack finds each; then rounds and faults that end."""

import sys

import pytest
from rich.console import Console
from rich.table import Table

from tests.cells.attacks import ATTACKS, LIES
from tests.cells.bugs import BUGS
from tests.cells.lies import play_seeds
from tests.cells.liveness import play_fleets
from tests.cells.margins import measure_margins
from tests.cells.rounds import play

_TRIALS = 4096
_LIVENESS_SEEDS = 200
_LIAR_SEEDS = 2_000


def run_attack(name: str) -> str | None:
    """Run an attack; return what the attacker gained, which may be a crash of the attacked code, or None."""
    try:
        return ATTACKS[name]()
    except Exception as error:  # noqa: BLE001 - a bug may break anything
        return f"{type(error).__name__}: {error}"


def main() -> int:
    """Print the table; return 1 if an attack succeeds against the shipped code or a bug is missed."""
    failed = False
    for name in ATTACKS:
        if (gain := run_attack(name)) is not None:
            print(f"the shipped code: {name}: {gain}", file=sys.stderr)
            failed = True
    table = Table("bug", "found by", "which got")
    for name, (bug, expected) in BUGS.items():
        with pytest.MonkeyPatch.context() as patch:
            bug(patch)
            attacks_run = [attack for attack in ATTACKS if attack not in LIES or attack in expected]
            results = {attack: gain for attack in attacks_run if (gain := run_attack(attack)) is not None}
        missed = [attack for attack in expected if attack not in results]
        failed = failed or bool(missed)
        others = [attack for attack in results if attack not in expected]
        finder_names = [*expected, *(f"({attack})" for attack in others), *(f"missed by {attack}" for attack in missed)]
        gains = [results[attack] for attack in expected if attack in results]
        table.add_row(name, "\n".join(finder_names), "\n".join(gains))
    Console(width=160).print(table)
    print(f"{len(BUGS)} bugs, {len(ATTACKS)} attacks", file=sys.stderr)
    failed = failed or not _check_noise_margins() or not play_fleets(range(_LIVENESS_SEEDS))
    failed = failed or not play_seeds(range(_LIAR_SEEDS))
    return 1 if failed or not _play_rounds(int(sys.argv[1])) else 0


def _check_noise_margins() -> bool:
    """Print how close attackers come to ε; return whether each bound is 60 % to 100 % of its claimed ε."""
    results = measure_margins(_TRIALS)
    for margin in results:
        print(
            f"an attacker that knows {margin.extra_shares} more shares than promised reaches ε ≥ {margin.bound:.3f} of "
            f"{margin.claimed:.3f}, {100 * margin.bound / margin.claimed:.0f} %",
            file=sys.stderr,
        )
    return all(0.6 * margin.claimed <= margin.bound <= margin.claimed for margin in results)


def _play_rounds(minimum_rounds: int) -> bool:
    """Play fleets until this many rounds have been charged; return whether no law was violated."""
    charged = opened = informed = running = with_liar = seed = 0
    failed_seeds = []
    while charged < minimum_rounds:
        try:
            outcome = play(seed)
        except AssertionError as error:
            failed_seeds.append(seed)
            print(f"seed {seed}: {error}", file=sys.stderr)
        else:
            charged, opened = charged + outcome.charged, opened + outcome.opened
            informed, running = informed + outcome.informed, running + outcome.running
            with_liar += outcome.liar is not None
        seed += 1
    print(
        f"{seed} fleets, {with_liar} with a liar, {charged} rounds paid for, {opened} opened, each exactly "
        f"once; at the end {informed} of {running} devices knew a sum; laws violated in {len(failed_seeds)} fleets",
        file=sys.stderr,
    )
    return not failed_seeds


if __name__ == "__main__":
    sys.exit(main())
