"""Members allowed in a secure sum's roster: the fleet's devices, unless unknown, expired or revoked."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Validity
from sottovoce.node.gossip.revocation_store import NAME, store_revocation_list
from sottovoce.node.provenance import FleetProvenance
from sottovoce.privacy.api import Refused
from sottovoce.privacy.secure_sum import steps
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.signing import revoke

from tests.cells.enrolled import TASK, Member, try_to_join
from tests.support.fleets import new_fleet

DAYS = 86_400.0


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


def _why(answer: steps.Answer | Refused) -> str:
    assert isinstance(answer, Refused)
    return answer.explanation


def test_a_revoked_device_is_in_no_roster(fleet: Fleet, tmp_path: Path) -> None:
    members = [Member(fleet, tmp_path / str(number)) for number in range(4)]
    own, others = members[0], members[1:]
    assert isinstance(try_to_join(own, others), steps.Sealed)
    revoked = revoke(tmp_path / "fleet", fleet, [others[2].identity.node_id])
    store_revocation_list(own.directory, revoked, fleet.authority)
    assert "revoked by its fleet" in _why(try_to_join(own, others))


def test_a_corrupt_revocation_list_admits_no_device(fleet: Fleet, tmp_path: Path) -> None:
    members = [Member(fleet, tmp_path / str(number)) for number in range(4)]
    (members[0].directory / NAME).write_bytes(b"nonsense")
    assert "revocation list" in _why(try_to_join(members[0], members[1:]))


def test_an_expired_device_is_in_no_roster(fleet: Fleet, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    short = Validity(now - timedelta(days=2), now + timedelta(days=1))
    others = [Member(fleet, tmp_path / str(number)) for number in range(1, 4)]
    others.append(Member(fleet, tmp_path / "short", short))
    own = Member(fleet, tmp_path / "own")
    assert isinstance(try_to_join(own, others), steps.Sealed)
    own.now = 2 * DAYS
    assert "valid" in _why(try_to_join(own, others))


def test_another_fleet_s_device_is_in_no_roster(fleet: Fleet, tmp_path: Path) -> None:
    members = [Member(fleet, tmp_path / str(number)) for number in range(3)]
    stranger = Member(new_fleet(tmp_path / "other", "other-street"), tmp_path / "stranger")
    assert isinstance(try_to_join(members[0], [*members[1:], stranger]), Refused)


def test_a_leader_admits_no_revoked_or_expired_device(fleet: Fleet, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    past = Validity(now - timedelta(days=9), now - timedelta(days=1))
    one = Member(fleet, tmp_path / "one")
    removed = Member(fleet, tmp_path / "gone", past)
    with pytest.raises(MessageRefused, match=r"not.*valid"):
        FleetProvenance(one.identity, TASK).admit(removed.offer())
    other = Member(fleet, tmp_path / "other")
    FleetProvenance(one.identity, TASK).admit(other.offer())
    refusing = FleetProvenance(one.identity, TASK, lambda node: node == other.identity.node_id)
    with pytest.raises(MessageRefused, match="revoked"):
        refusing.admit(other.offer())
