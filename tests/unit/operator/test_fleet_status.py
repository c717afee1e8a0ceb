"""`fleet status`: its view from an agent's facts and from the devices that answer."""

from typing import Any

import pytest
from sottovoce_operator.cli.fleet_status import _classify_device

PERIOD = 60.0
DIRECT, BROKERED = "192.0.2.7:7400", "mqtt:main"


@pytest.mark.parametrize(
    "endpoints, heard, reached, state",
    [
        ([DIRECT], 3.0, {"d": None}, "answers"),
        ([DIRECT], 3.0, {"d": "no answer within 5 s"}, "silent"),
        ([DIRECT, BROKERED], 3.0, {"d": "no answer within 5 s"}, "heard"),
        ([DIRECT, BROKERED], 9 * PERIOD, {"d": "no answer within 5 s"}, "silent"),
        ([BROKERED], 3.0, {}, "heard"),
        ([BROKERED], 9 * PERIOD, {}, "silent"),
        ([BROKERED], None, {}, "heard"),
        ([DIRECT], None, {"d": "nothing listens there"}, "silent"),
        ([], None, {}, "silent"),
    ],
)
def test_all_devices_and_their_states_are_listed(
    endpoints: list[str], heard: float | None, reached: dict[str, str | None], state: str
) -> None:
    device: dict[str, Any] = {
        "id": "d",
        "endpoints": endpoints,
        "heard_s": heard,
        "leaving": False,
        "revoked": False,
        "health": None,
    }
    result = {"id": "this", "period_s": PERIOD}
    assert _classify_device(device, result, reached)[0] == state
    assert _classify_device({**device, "leaving": True}, result, reached) == ("left", None)
    assert _classify_device({**device, "leaving": True, "revoked": True}, result, reached) == ("revoked", None)
    assert _classify_device({**device, "health": "behind"}, result, reached)[0] == "answers"
