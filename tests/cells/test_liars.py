"""One liar of each kind among 20 devices, one of which may be dishonest: the others get the sum, and name it."""

import pytest

from tests.cells.liars import LIARS
from tests.cells.lies import lied


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("kind", LIARS)
def test_one_liar(kind: str, place: int) -> None:
    assert lied(kind, place, 20) is None
