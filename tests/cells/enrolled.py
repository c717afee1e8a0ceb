"""Members with real certificates, whose vaults check the certificates' validity."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from sottovoce.data import Records
from sottovoce.fleet import Identity, Validity
from sottovoce.kernels.profile import Profile
from sottovoce.node.gossip.revocation_store import StoredRevocations, store_revocation_list
from sottovoce.node.provenance import FleetProvenance, MemberVerifier
from sottovoce.privacy.api import CellAnswer, CellQuery, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.statements import Offer, Statement, body_bytes
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, Vault
from sottovoce_operator.fleet import Fleet, enrol
from sottovoce_operator.fleet.signing import revoke

from tests.support.fleets import new_fleet

TASK = b"task"
_LEARNER = "average"
_DAY = 86_400.0


class Member:
    """Device whose vault looks up revoked devices in its directory."""

    def __init__(self, fleet: Fleet, directory: Path, validity: Validity | None = None, now: float = 0.0) -> None:
        self.directory, self.now = directory, now
        self.identity: Identity = enrol(fleet, directory, validity=validity) if validity else enrol(fleet, directory)
        self.vault: Vault = build(
            records=Records(np.ones((1, 2)), np.zeros(1, dtype=np.int64)),
            kernel=None,
            terms=MeanTerms(_LEARNER, Profile(2, 1.0), Cell(4, 8, 0, 0.6)),
            ledger=Ledger.in_memory(self.identity.node_id, Budget(None, 1e-5, "device", "add-remove")),
            noise=SeededNoise(1),
            verify_signature=MemberVerifier(
                fleet.authority, TASK, StoredRevocations(directory, fleet.authority), lambda: time.time() + self.now
            ).verify,
        )

    def ask(self, step: steps.Question) -> steps.Answer | Refused:
        answer = self.vault.step(CellQuery(_LEARNER, steps.encode_step(step)))
        return steps.decode_answer(answer.payload) if isinstance(answer, CellAnswer) else answer

    def offer(self) -> Statement:
        offer = self.ask(steps.Begin(0, b""))
        assert isinstance(offer, Offer)
        return FleetProvenance(self.identity, TASK).sign(Statement(self.identity.node_id, body_bytes(offer)))


def try_to_join(member: Member, others: list[Member]) -> steps.Answer | Refused:
    offers = [device.offer() for device in (member, *others)]
    return member.ask(steps.Join(tuple(sorted(offers, key=lambda offer: offer.owner))))


class Enrolled:
    """Four members of one fleet, and two devices that must not be in any roster.

    Args:
        directory: directory of the members' files.
    """

    def __init__(self, directory: Path) -> None:
        fleet = new_fleet(directory / "fleet")
        now = datetime.now(UTC)
        short = Validity(now - timedelta(days=2), now + timedelta(days=1))
        self._own, *self._others = (Member(fleet, directory / str(number)) for number in range(4))
        self._own.now = 2 * _DAY
        self._revoked, self._expired = Member(fleet, directory / "gone"), Member(fleet, directory / "short", short)
        store_revocation_list(
            self._own.directory, revoke(directory / "fleet", fleet, [self._revoked.identity.node_id]), fleet.authority
        )

    def accepted_outsiders(self) -> list[str]:
        """Return the excluded devices with which a member's vault would join a roster."""
        outsiders = {"revoked": self._revoked, "expired": self._expired}
        return [
            reason
            for reason, outsider in outsiders.items()
            if isinstance(try_to_join(self._own, [*self._others, outsider]), steps.Sealed)
        ]
