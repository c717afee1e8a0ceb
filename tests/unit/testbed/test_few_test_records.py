"""A testbed warns if its accuracy is measured on few records."""

import numpy as np
import pytest
from sottovoce.data import DataSet, Records
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_facts import data_warnings
from sottovoce_lab.testbed.run_spec import build_run_spec


@pytest.mark.parametrize("records, warned", [(100, True), (400, False)])
def test_a_fifth_of_the_records_is_few_or_enough(records: int, warned: bool) -> None:
    rows = np.random.default_rng(0).random((records, 4))
    data = DataSet("made-up", Records(rows, np.arange(records) % 2), 2, (np.zeros(4), np.ones(4)), None)
    made = plan(build_run_spec({"data": "made-up", "agents": 4}, "test").options(), data)
    named = [words for words in data_warnings(made) if "test records" in words]
    assert len(named) == warned
    if warned:
        assert len(made.test) < 30
        assert f"is {len(made.test)}," in named[0]
        assert f"{98 / len(made.test) ** 0.5:.0f} points" in named[0]
