"""`make cells`: bugs put into the code of secure sums, and which attack finds each; then rounds under faults."""

import sys

import pytest
from rich.console import Console
from rich.table import Table

from tests.cells.attacks import ATTACKS, LIES
from tests.cells.bugs import BUGS
from tests.cells.rounds import play
from tests.cells.teeth import bites

_TRIALS = 4096


def succeeded(name: str) -> str | None:
    """Run an attack; return what the attacker got, which may be a crash of the code under attack, or None."""
    try:
        return ATTACKS[name]()
    except Exception as error:  # noqa: BLE001 - a bug may break anything
        return f"{type(error).__name__}: {error}"


def main() -> int:
    """Print the table; return 1 if an attack succeeds against the shipped code or a bug is missed."""
    failed = False
    for name in ATTACKS:
        if (got := succeeded(name)) is not None:
            print(f"the code as it ships: {name}: {got}", file=sys.stderr)
            failed = True
    table = Table("bug", "found by", "which got")
    for name, (bug, expected) in BUGS.items():
        with pytest.MonkeyPatch.context() as patch:
            bug(patch)
            tried = [attack for attack in ATTACKS if attack not in LIES or attack in expected]
            found = {attack: got for attack in tried if (got := succeeded(attack)) is not None}
        missed = [attack for attack in expected if attack not in found]
        failed = failed or bool(missed)
        others = [attack for attack in found if attack not in expected]
        named = [*expected, *(f"({attack})" for attack in others), *(f"missed by {attack}" for attack in missed)]
        table.add_row(name, "\n".join(named), "\n".join(found[attack] for attack in expected if attack in found))
    Console(width=160).print(table)
    print(f"{len(BUGS)} bugs, {len(ATTACKS)} attacks", file=sys.stderr)
    failed = failed or not _bitten()
    return 1 if failed or not _rounds(int(sys.argv[1])) else 0


def _bitten() -> bool:
    """Print how near attackers come to ε; return whether the allowed one stays below and each is as near as due."""
    found = bites(_TRIALS)
    for one in found:
        print(
            f"an attacker that knows {one.known} shares more than is promised reaches ε ≥ {one.bound:.3f} of "
            f"{one.claimed:.3f}, {100 * one.bound / one.claimed:.0f} %",
            file=sys.stderr,
        )
    return all(0.6 * one.claimed <= one.bound <= one.claimed for one in found)


def _rounds(most: int) -> bool:
    """Play fleets until this many rounds have been paid for; return whether all laws held."""
    charged = opened = knowing = up = lied = seed = 0
    broken = []
    while charged < most:
        try:
            played = play(seed)
        except AssertionError as error:
            broken.append(seed)
            print(f"seed {seed}: {error}", file=sys.stderr)
        else:
            charged, opened = charged + played.charged, opened + played.opened
            knowing, up = knowing + played.knowing, up + played.up
            lied += played.liar is not None
        seed += 1
    print(
        f"{seed} fleets, {lied} with a liar, {charged} rounds paid for, {opened} opened, each once and to the last "
        f"bit; at the end {knowing} of {up} devices knew a sum; laws broken in {len(broken)} fleets",
        file=sys.stderr,
    )
    return not broken


if __name__ == "__main__":
    sys.exit(main())
