"""An agent's messages while its certificate is not renewed."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.errors import NetworkError
from sottovoce.fleet import Trust, load
from sottovoce.fleet.clock import ClockFloor
from sottovoce.fleet.renewal import install_certificate, make_renewal_request
from sottovoce.node.renewal import Renewal, overdue_warning
from sottovoce.node.waits import Waits
from sottovoce_operator.fleet import enrol
from sottovoce_operator.fleet.request import read_request

from tests.support.fleets import new_fleet, validity_ending_in


async def _nothing() -> None:
    pass


@pytest.mark.parametrize("seconds", [3600, -60])
def test_the_agent_waits_for_a_silent_enroller_until_the_certificate_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    fleet, directory = new_fleet(tmp_path / "fleet"), tmp_path / "a"
    enrol(fleet, directory, validity=validity_ending_in(seconds))
    trust, waits = Trust(load(directory, check_dates=False)), Waits()
    renewal = Renewal(
        trust=trust, directory=directory, callbacks={tmp_path / "list": _nothing}, floor=ClockFloor(tmp_path / "c"),
        enroller="h:1", pinned_nodes=(), pause=5.0, waits=waits,
    )  # fmt: skip

    def fail(*_: object) -> bytes:
        raise NetworkError("no enroller responds at h:1")

    monkeypatch.setattr("sottovoce.net.enrolment.request_renewal", fail)

    async def looks() -> None:
        await renewal._check_once()
        (wait,) = waits.to_dict()
        assert wait["reason"] == "the enroller h:1 to renew the certificate"
        assert 5 < float(wait["left_s"]) <= 605
        request = read_request(make_renewal_request(directory), "r")
        install_certificate(directory, fleet.renew(request, ()), "c")
        await renewal._check_once()
        await renewal._check_once()
        assert waits.to_dict() == []

    asyncio.run(looks())


def test_an_expired_certificate_is_reported(tmp_path: Path) -> None:
    identity = enrol(new_fleet(tmp_path / "fleet"), tmp_path / "a", validity=validity_ending_in(60))
    now = datetime.now(UTC)
    assert "the agent continues to work until then" in overdue_warning(identity, now)
    assert "expired on" in overdue_warning(identity, now + timedelta(hours=1))
