"""Windows that are days: written as dates, and as numbers everywhere else."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from sottovoce.config import load, read_proposed_task
from sottovoce.days import with_day_numbers

HEAD = '[agent]\nstate = "state"\n[data]\nsource = "npz:records.npz"\nfeatures = 4\nclasses = 2\nexpected_records = 9\n'


@pytest.mark.parametrize("windows", ["[2026-01-01, 2035-12-31]", '["2026-01-01", "2035-12-31"]', "[20454, 24105]"])
def test_dates_and_numbers_are_equivalent(tmp_path: Path, windows: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'{HEAD}windows = {windows}\n[privacy]\nunit = "window"\n')
    assert load(file).data.windows == (20454, 24105)


def test_a_signed_task_contains_numbers(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    data = "features = 4\nclasses = 2\nexpected_records = 9\nwindows = [2026-01-01, 2035-12-31]\n"
    file.write_text(f'[task]\nname = "a"\n[data]\n{data}[learner]\nname = "clipd2p"\n[privacy]\nepsilon = 1.0\n')
    tables, _ = read_proposed_task(file)
    assert tables["data"]["windows"] == [20454, 24105]


def test_other_values_are_left_to_the_schema() -> None:
    odd = ["yesterday", True, datetime(2026, 1, 1, 12, tzinfo=UTC), 3, date(1970, 1, 2)]
    assert with_day_numbers({"data": {"windows": odd}})["data"]["windows"] == [*odd[:4], 1]
    assert with_day_numbers({"data": {"windows": "x"}, "a": 1}) == {"data": {"windows": "x"}, "a": 1}
    assert with_day_numbers({}) == {}
