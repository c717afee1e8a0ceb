"""Who may be in the roster of a secure sum: devices of the fleet, neither unknown nor expired nor revoked."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sottovoce.agent.provenance import FleetProvenance, RosterWitness
from sottovoce.agent.revoked import NAME, RevokedHere, keep_list, revoke
from sottovoce.cell import Cell
from sottovoce.data import Records
from sottovoce.door import CellAnswer, CellQuery, Refused
from sottovoce.errors import MessageRefused
from sottovoce.identity import Fleet, Identity, Validity, enrol
from sottovoce.kernels.profile import Profile
from sottovoce.secure_sum import steps
from sottovoce.secure_sum.statements import Offer, Statement, body_bytes
from sottovoce.vault import Budget, Ledger, SeededNoise, Vault, build
from sottovoce.vault.rooms.means import MeanTerms

from tests.support.fleets import new_fleet

TASK = b"task"
LEARNER = "average"
DAYS = 86_400.0


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "fleet")


class Member:
    """A device, whose vault looks into its directory for who is revoked."""

    def __init__(self, fleet: Fleet, directory: Path, validity: Validity | None = None, now: float = 0.0) -> None:
        self.directory, self.now = directory, now
        self.identity: Identity = enrol(fleet, directory, validity=validity) if validity else enrol(fleet, directory)
        self.vault: Vault = build(
            records=Records(np.ones((1, 2)), np.zeros(1, dtype=np.int64)),
            kernel=None,
            terms=MeanTerms(LEARNER, Profile(2, 1.0), Cell(4, 8, 0, 0.6)),
            ledger=Ledger.in_memory(self.identity.node_id, Budget(None, 1e-5, "device", "add-remove")),
            noise=SeededNoise(1),
            belongs=RosterWitness(
                fleet.authority, TASK, RevokedHere(directory, fleet.authority), lambda: time.time() + self.now
            ).verify,
        )

    def ask(self, step: steps.Question) -> steps.Answer | Refused:
        answer = self.vault.step(CellQuery(LEARNER, steps.encoded(step)))
        return steps.answer(answer.said) if isinstance(answer, CellAnswer) else answer

    def offer(self) -> Statement:
        offer = self.ask(steps.Begin(0, b""))
        assert isinstance(offer, Offer)
        return FleetProvenance(self.identity, TASK).signed(Statement(self.identity.node_id, body_bytes(offer)))


def _joined(member: Member, others: list[Member]) -> steps.Answer | Refused:
    offers = [one.offer() for one in (member, *others)]
    return member.ask(steps.Join(tuple(sorted(offers, key=lambda one: one.owner))))


def _why(answer: steps.Answer | Refused) -> str:
    assert isinstance(answer, Refused)
    return answer.explanation


def test_a_revoked_device_is_in_no_roster(fleet: Fleet, tmp_path: Path) -> None:
    members = [Member(fleet, tmp_path / str(number)) for number in range(4)]
    own, others = members[0], members[1:]
    assert isinstance(_joined(own, others), steps.Sealed)
    revoked = revoke(tmp_path / "fleet", fleet, [others[2].identity.node_id])
    keep_list(own.directory, revoked, fleet.authority)
    assert "revoked by its fleet" in _why(_joined(own, others))


def test_nobody_is_believed_while_the_list_is_damaged(fleet: Fleet, tmp_path: Path) -> None:
    members = [Member(fleet, tmp_path / str(number)) for number in range(4)]
    (members[0].directory / NAME).write_bytes(b"nonsense")
    assert "revocation list" in _why(_joined(members[0], members[1:]))


def test_an_expired_device_is_in_no_roster(fleet: Fleet, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    short = Validity(now - timedelta(days=2), now + timedelta(days=1))
    others = [Member(fleet, tmp_path / str(number)) for number in range(1, 4)]
    others.append(Member(fleet, tmp_path / "short", short))
    own = Member(fleet, tmp_path / "own")
    assert isinstance(_joined(own, others), steps.Sealed)
    own.now = 2 * DAYS
    assert "does not hold now" in _why(_joined(own, others))


def test_a_device_of_another_fleet_is_in_no_roster(fleet: Fleet, tmp_path: Path) -> None:
    members = [Member(fleet, tmp_path / str(number)) for number in range(3)]
    stranger = Member(new_fleet(tmp_path / "other", "other-street"), tmp_path / "stranger")
    assert isinstance(_joined(members[0], [*members[1:], stranger]), Refused)


def test_a_leader_admits_no_revoked_or_expired_device(fleet: Fleet, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    past = Validity(now - timedelta(days=9), now - timedelta(days=1))
    one = Member(fleet, tmp_path / "one")
    gone = Member(fleet, tmp_path / "gone", past)
    with pytest.raises(MessageRefused, match="does not hold now"):
        FleetProvenance(one.identity, TASK).admit(gone.offer())
    other = Member(fleet, tmp_path / "other")
    FleetProvenance(one.identity, TASK).admit(other.offer())
    refusing = FleetProvenance(one.identity, TASK, lambda node: node == other.identity.node_id)
    with pytest.raises(MessageRefused, match="revoked by its fleet"):
        refusing.admit(other.offer())
