"""Metrics of a result: only with the owner's opt-in."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.config import ObserveSection
from sottovoce.node.observation import result_values
from sottovoce.node.opened_sum import OpenedSum, ResultFile
from sottovoce.node.status import StatusSource
from sottovoce.task import Task

from tests.support.opened_sums import SETTINGS


def agent(model: Any, *, results: bool = True, opened: bool = True) -> StatusSource:
    members = tuple(f"member-{i}" for i in range(6))
    document = ResultFile(
        opened=OpenedSum(
            fleet="street", task=Task(SETTINGS).canonical.decode(), slot=0, round="ab" * 32, owners=members,
            survivors=(0, 1, 2, 3, 5), exponent=-10, total=(1, 2, 3, 4), share=300, epsilon=1.0, delta=1e-5,
        ),
        confirmations=(),
    )  # fmt: skip
    book = SimpleNamespace(results=(document,) if opened else ())
    fake = SimpleNamespace(
        config=SimpleNamespace(observe=ObserveSection(metrics="127.0.0.1:1", results=results)),
        results=SimpleNamespace(book=book),
        model=model,
    )
    return cast(StatusSource, fake)


def test_a_result_has_its_homes_noise_and_values() -> None:
    values = result_values(agent(np.array([0.25, -1.5, 0.0, 2.0])))
    assert values["sottovoce_result_members"] == 5
    assert values["sottovoce_result_signatures_required"] == 5, "t of the six members in the roster"
    assert values["sottovoce_result_noise_deviation"] == pytest.approx(300 / 1024 * 5**0.5 / 5)
    assert values["sottovoce_result_value"] == {"00": 0.25, "01": -1.5, "02": 0.0, "03": 2.0}
    assert "sottovoce_result_value" not in result_values(agent(np.zeros(97)))


def test_without_opt_in_or_without_a_result_nothing_is_served() -> None:
    model = np.zeros(4)
    assert result_values(agent(model, results=False)) == {}
    assert result_values(agent(model, opened=False)) == {}
    assert result_values(agent(None)) == {}
