"""Test that the mechanism's estimates are unbiased and that its noise has the stated size."""

import pytest
from own_laplace import MECHANISM
from sottovoce.testing import check_mechanism


@pytest.mark.parametrize("classes", [2, 3])
def test_it_keeps_the_contract(classes: int) -> None:
    check_mechanism(MECHANISM, classes=classes)
