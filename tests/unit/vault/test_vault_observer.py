"""Observer of a vault: allowed for a simulated vault, refused with real noise."""

from typing import Any

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, SeededNoise

KERNEL = Softmax(3, 2)
RECORDS = Records(np.eye(3).repeat(20, axis=0), np.arange(60) % 2)
TERMS = GradientTerms("clipd2p", 5, 1.0, sampling="poisson", batch=10, of=60)


class Notes:
    def __init__(self) -> None:
        self.taken: list[tuple[Query, dict[str, Any]]] = []

    def record_computed(self, query: Query, facts: dict[str, Any]) -> None:
        self.taken.append((query, facts))


def ledger() -> Ledger:
    return Ledger.in_memory("meter", Budget(2.0, 1e-5, "record", "add-remove"))


def test_an_observer_sees_the_batch_and_the_release() -> None:
    notes = Notes()
    vault = build(records=RECORDS, kernel=KERNEL, terms=TERMS, ledger=ledger(), noise=SeededNoise(1), observer=notes)
    query = Query("clipd2p", "gradient", 0, np.zeros(6))
    answer = vault.answer(query)
    assert not isinstance(answer, Refused)
    ((notes_taken, facts),) = notes.taken
    assert notes_taken is query
    assert 0 < len(facts["batch"]) < 60
    assert facts["batch"] == sorted(set(facts["batch"]))
    np.testing.assert_allclose(facts["value"], answer.value * answer.step)
    assert vault.answer(query).value.tolist() == answer.value.tolist()  # type: ignore[union-attr]
    assert len(notes.taken) == 1, "stored answers are not recomputed"


def test_a_device_s_real_noise_has_no_observer() -> None:
    with pytest.raises(InternalError, match="observer"):
        build(
            records=RECORDS,
            kernel=KERNEL,
            terms=TERMS,
            ledger=ledger(),
            noise=OperatingSystemNoise(),
            observer=Notes(),
        )
