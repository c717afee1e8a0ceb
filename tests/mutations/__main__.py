"""`make mutants`: each defect put into the shipped code, and which of our checks find it."""

import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import pytest
from rich.console import Console
from rich.table import Table
from sottovoce_lab.auditor import audit

from tests.mutations.mutants import Mutant
from tests.mutations.test_mutations import CASES, OTHERS, TRIALS, Target


def main() -> int:
    """Print the table; 1 where a check that should find a defect does not."""
    found: dict[str, list[str]] = defaultdict(list)
    missed: dict[str, list[str]] = defaultdict(list)
    checks: list[tuple[Mutant, str, Callable[[], bool]]] = [
        *((mutant, f"audit of {target[1]}: {game}", partial(_audited, target, game)) for mutant, target, game in CASES),
        *((mutant, catcher.__name__, partial(_raised, catcher)) for mutant, catcher in OTHERS),
    ]
    for number, (mutant, name, caught) in enumerate(sorted(checks, key=lambda check: check[0].__name__), 1):
        print(f"{number} of {len(checks)}: {mutant.__name__}, {name}", file=sys.stderr)
        with pytest.MonkeyPatch.context() as patch:
            mutant(patch)
            (found if caught() else missed)[mutant.__name__].append(name)
    table = Table("defect", "found by", "missed by")
    for defect in sorted({*found, *missed}):
        table.add_row(defect, "\n".join(found[defect]), "\n".join(missed[defect]))
    Console().print(table)
    return 1 if missed else 0


def _audited(target: Target, game: str) -> bool:
    outcome = audit(*target, trials=TRIALS)
    return game in {finding.game for finding in outcome.findings if finding.refuted}


def _raised(catcher: Callable[[], None]) -> bool:
    try:
        catcher()
    except (AssertionError, pytest.fail.Exception):
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
