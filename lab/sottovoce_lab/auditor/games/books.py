"""A game that checks whether the ledger charges every release, even across restarts, and never redraws noise."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.errors import PrivacyError
from sottovoce.vault import Ledger, Vault

from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.subject import Subject, watch_new_device

_OWNER = "audited"
_LIVES = 3
_MAX_RECORDS = 5


def books(subject: Subject) -> Finding:
    """Send every query three times in each of three device runs that share a ledger, and one query beyond the budget.

    The first run ends halfway, so the ledger is reopened before all queries are answered.

    The verdict is deterministic rather than statistical: a single new answer to an old query refutes the claim.
    """
    wrong: dict[str, int] = {"refused": 0, "redrawn": 0, "beyond_the_budget": 0, "unpaid": 0, "shared_noise": 0}
    asked = 0
    for world in list(subject.worlds().values())[:2]:
        records = world.at(slice(_MAX_RECORDS))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "ledger.db")
            Ledger.create(path, _OWNER, subject.budget)
            known: dict[bytes, bytes] = {}
            for life in range(_LIVES):
                vault = subject.vault(records, Ledger.open(path, _OWNER, subject.budget))
                try:
                    asked += _run_life(subject, vault, records, known, wrong, cut_short=not life)
                finally:
                    vault.close()
            wrong["shared_noise"] += bool(known) and _releases_are_equal(subject, records)
    refuted = any(wrong.values())
    question = "is every release charged to the ledger, and is noise never redrawn?"
    return Finding("books", question, asked, dict(wrong), p_value=float(not refuted), refuted=refuted)


def _run_life(
    subject: Subject,
    vault: Vault,
    records: Records,
    known: dict[bytes, bytes],
    wrong: dict[str, int],
    *,
    cut_short: bool,
) -> int:
    """Run a device once, or only its first half, adding answers to `known` and counting errors in `wrong`."""
    paid, beyond = subject.queries(records)
    if cut_short:
        paid = paid[: (len(paid) + 1) // 2]
    for query in [*paid, *(_at_another_point(query) for query in paid), *paid]:
        answer = vault.answer(query)
        if isinstance(answer, Refused):
            wrong["refused"] += 1
        else:
            value = answer.value.tobytes()
            wrong["redrawn"] += known.setdefault(query.id, value) != value
    wrong["unpaid"] += max(0, len(known) - vault.spending().charges)
    if cut_short:
        return 3 * len(paid)
    wrong["beyond_the_budget"] += not isinstance(vault.answer(beyond), Refused)
    if paid or not vault.spending().charges:
        wrong["redrawn"] += subject.watch(vault, len(records)).versions - 1
    else:
        wrong["beyond_the_budget"] += _takes_part(subject, vault, records)
    return 3 * len(paid) + 1


def _takes_part(subject: Subject, vault: Vault, records: Records) -> bool:
    """Return whether a device that answers no queries takes part in another sum after it was charged for all."""
    try:
        subject.watch(vault, len(records))
    except PrivacyError:
        return False
    return True


def _at_another_point(query: Query) -> Query:
    """Return a query for the same slot of the schedule, which is already answered, at a different point."""
    return replace(query, point=query.point + 1.0)


def _releases_are_equal(subject: Subject, records: Records) -> bool:
    """Return whether two devices with equal records release identical values."""
    return bool(np.array_equal(watch_new_device(subject, records).values, watch_new_device(subject, records).values))
