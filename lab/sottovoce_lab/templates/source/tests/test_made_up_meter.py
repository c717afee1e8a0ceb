"""Test that the meter source can be restarted, and that its counter increases."""

import asyncio

from made_up_meter import SOURCE
from sottovoce.testing import check_meter_source


def test_it_keeps_the_contract() -> None:
    asyncio.run(check_meter_source(SOURCE, {"every": 0.001}))


def test_it_counts() -> None:
    async def read(count: int) -> list[float]:
        seen = []
        async for topic, payload in SOURCE.messages({"every": 0.001, "watts": 3600.0}):
            assert topic == "made-up/counter"
            seen.append(float(payload))
            if len(seen) == count:
                break
        return seen

    seen = asyncio.run(read(5))
    assert seen == sorted(seen)
    assert seen[0] == 1000.0
