"""The suites find planted faults between a device's file and its vault, and find none without them."""

from pathlib import Path

import pytest
from sottovoce.errors import SottovoceError

from tests.lives.faults import FAULTS

pytestmark = pytest.mark.slow

_PAIRS = 200


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    fault.play(tmp_path, 0)
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        for seed in range(_PAIRS):
            try:
                fault.play(tmp_path / "planted", seed)
            except (AssertionError, SottovoceError):
                return
    raise AssertionError(f"{_PAIRS} pairs of worlds do not show {name}")
