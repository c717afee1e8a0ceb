"""`make audit`: every learner as it ships against the auditor, into docs/results/measured/audit.csv."""

import csv
import sys
from pathlib import Path

from sottovoce_lab.auditor import LEARNERS, Audit, audit

TABLE = Path(__file__).parents[2] / "docs/results/measured/audit.csv"
HEAD = ("learner", "played", "claim, ε", "ε ≥", "share of the claim", "verdict")


def main() -> int:
    """Play them, and write the table; 1 where a claim is refuted, or a canary reaches less than 70 % of it."""
    rows, wrong = [], []
    for name, fidelity in LEARNERS:
        outcome = audit("learner", name, fidelity=fidelity, progress=lambda line: None)
        rows.append(_row(outcome))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
        if outcome.refuted or (
            outcome.statement.epsilon and outcome.epsilon_lower_bound < 0.7 * outcome.statement.epsilon
        ):
            wrong.append(f"{name} ({fidelity})")
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])
    if wrong:
        print(f"refuted, or told apart too seldom: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def _row(outcome: Audit) -> tuple[str, ...]:
    stated, found = outcome.statement.epsilon, outcome.epsilon_lower_bound
    name = outcome.name if outcome.fidelity == "sound" else f"{outcome.name}, {outcome.fidelity}"
    played = ", ".join(
        f"{key.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{key.replace('_', ' ')} {value}"
        for key, value in outcome.public_parameters.items()
    )
    claim, share = ("none", "") if stated is None else (f"{stated:g}", f"{100 * found / stated:.0f} %")
    return name, played, claim, f"{found:.2f}", share, outcome.verdict


if __name__ == "__main__":
    sys.exit(main())
