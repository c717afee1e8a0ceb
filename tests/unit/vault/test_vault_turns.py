"""Concurrent queries to a vault: from its agent's learner and from comparisons of ledger heads, in several threads."""

import threading
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise

pytestmark = pytest.mark.slow

BUDGET = Budget(2.0, 1e-5, "record", "replace-one")
COUNT = 300


def test_one_caller_is_served_at_a_time(tmp_path: Path) -> None:
    """Without this, threads would share SQLite's connection: chains would look broken, or the process would die."""
    generator = np.random.default_rng(0)
    records = Records(generator.random((COUNT, 3)), generator.integers(0, 3, COUNT))
    path = tmp_path / "ledger.db"
    Ledger.create(path, "meter-17", BUDGET)
    vault = build(
        records=records,
        kernel=None,
        terms=RecordTerms("golf", scheme("laplace", 3, 3, 2.0), "declared"),
        ledger=Ledger.open(path, "meter-17", BUDGET),
        noise=OperatingSystemNoise(),
    )
    done, troubles = threading.Event(), []

    def look() -> None:
        while not done.is_set():
            try:
                tip = vault.tip()
                if vault.mark(tip.charges, tip.released) != tip.mark or vault.spending().charges < tip.charges:
                    troubles.append("a ledger that does not hold what it held")
            except Exception as error:  # noqa: BLE001 - any
                troubles.append(repr(error))

    onlookers = [threading.Thread(target=look) for _ in range(3)]
    for onlooker in onlookers:
        onlooker.start()
    try:
        answers = [vault.answer(Query("golf", "record", index, np.empty(0))) for index in range(COUNT)]
    finally:
        done.set()
        for onlooker in onlookers:
            onlooker.join()
    assert troubles == []
    assert not any(isinstance(answer, Refused) for answer in answers)
    assert (vault.spending().charges, vault.spending().epsilon) == (COUNT, 2.0)
    vault.close()
