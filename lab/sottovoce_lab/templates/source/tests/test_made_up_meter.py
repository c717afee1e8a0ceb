"""Test that the counter of the meter source increases."""

import pytest
from made_up_meter import SOURCE


@pytest.mark.asyncio
async def test_it_counts() -> None:
    seen = []
    async for topic, payload in SOURCE.messages({"every": 0.001, "watts": 3600.0}):
        assert topic == "made-up/counter"
        seen.append(float(payload))
        if len(seen) == 5:
            break
    assert seen == sorted(seen)
    assert seen[0] == 1000.0
