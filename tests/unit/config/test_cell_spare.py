"""Default number of failed sums that the budget covers."""

import pytest
from sottovoce.config import CellSection
from sottovoce.privacy.mechanisms.cell_sum import calibrate_cell
from sottovoce.privacy.terms.cell_guarantee import cell_guarantee
from sottovoce.privacy.vault import Budget


@pytest.mark.parametrize(
    "section, spare",
    [
        (CellSection(), 1),
        (CellSection(min=20, colluding=1), 1),
        (CellSection(min=8, threshold=1.0), 0),
        (CellSection(min=8, colluding=3), 0),
        (CellSection(min=8, threshold=1.0, spare=2), 2),
        (CellSection(spare=0), 0),
    ],
)
def test_one_failed_sum_is_covered_if_a_round_can_exclude_a_dishonest_device(section: CellSection, spare: int) -> None:
    assert section.size_limits.spare == spare


def test_the_statement_contains_the_number() -> None:
    budget = Budget(1.0, 1e-5, "device", "add-remove")
    cell = CellSection().size_limits
    mechanism = calibrate_cell(
        cell, sums=1, clip=1.0, size=4, epsilon=1.0, delta=budget.delta, neighbouring="add-remove"
    )
    assert "over at most 2 sums, of which 1 may fail" in cell_guarantee(budget, mechanism, 1.0).composition
