"""A game that checks whether the ledger charges every release, even across restarts, and never redraws noise."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.vault import Ledger, Vault

from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.subject import Subject, observe_new_device

_OWNER = "audited"
_RUNS = 3
_MAX_RECORDS = 5


def play_ledger_game(subject: Subject) -> Finding:
    """Send every query three times in each of three device runs that share a ledger, and one query beyond the budget.

    The first run ends halfway, so the ledger is reopened before all queries are answered.

    The verdict is deterministic rather than statistical: a single new answer to an old query refutes the claim.
    """
    errors: dict[str, int] = {"refused": 0, "redrawn": 0, "beyond_the_budget": 0, "unpaid": 0, "shared_noise": 0}
    query_count = 0
    for world in list(subject.worlds().values())[:2]:
        records = world.at(slice(_MAX_RECORDS))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "ledger.db")
            Ledger.create(path, _OWNER, subject.budget)
            answers: dict[bytes, bytes] = {}
            for run in range(_RUNS):
                vault = subject.vault(records, Ledger.open(path, _OWNER, subject.budget))
                try:
                    query_count += _run_device(subject, vault, records, answers, errors, cut_short=not run)
                finally:
                    vault.close()
            errors["shared_noise"] += bool(answers) and _releases_are_equal(subject, records)
    refuted = any(errors.values())
    question = "is every release charged to the ledger, and is noise never redrawn?"
    return Finding("books", question, query_count, dict(errors), p_value=float(not refuted), refuted=refuted)


def _run_device(
    subject: Subject,
    vault: Vault,
    records: Records,
    answers: dict[bytes, bytes],
    errors: dict[str, int],
    *,
    cut_short: bool,
) -> int:
    """Run a device once, or only its first half, adding to `answers` and counting errors in `errors`."""
    paid, excess = subject.queries(records)
    if cut_short:
        paid = paid[: (len(paid) + 1) // 2]
    for query in [*paid, *(_move_query(query) for query in paid), *paid]:
        answer = vault.answer(query)
        if isinstance(answer, Refused):
            errors["refused"] += 1
        else:
            value = answer.value.tobytes()
            errors["redrawn"] += answers.setdefault(query.id, value) != value
    errors["unpaid"] += max(0, len(answers) - vault.spending().charges)
    if cut_short:
        return 3 * len(paid)
    errors["beyond_the_budget"] += not isinstance(vault.answer(excess), Refused)
    if paid or not vault.spending().charges:
        errors["redrawn"] += subject.observe(vault, len(records)).versions - 1
    else:
        errors["beyond_the_budget"] += _takes_part(subject, vault, records)
    return 3 * len(paid) + 1


def _takes_part(subject: Subject, vault: Vault, records: Records) -> bool:
    """Return whether a device that only joins secure sums joins another sum after its budget is spent."""
    try:
        subject.observe(vault, len(records))
    except PrivacyError:
        return False
    return True


def _move_query(query: Query) -> Query:
    """Return a query for the same slot, which has already been answered, but at a different point.

    The point stays close, because a vault refuses the mean of centred records if it is longer than a record.
    """
    return replace(query, point=query.point + 2.0**-6)


def _releases_are_equal(subject: Subject, records: Records) -> bool:
    """Return whether two devices with equal records release identical values."""
    first, second = (observe_new_device(subject, records) for _ in range(2))
    sums_are_equal = first.record_sum.size > 0 and np.array_equal(first.record_sum, second.record_sum)
    return sums_are_equal or np.array_equal(first.values, second.values)
