"""Secure sums through a vault's socket, and the sums that a policy allows. Attacks are in tests/cells."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import PrivacyError, TaskRefused
from sottovoce.kernels.profile import Profile
from sottovoce.node.waits import Waits
from sottovoce.privacy.api import CellAnswer, CellQuery, Query, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism, calibrate_cell
from sottovoce.privacy.rpc.remote import RemoteVault
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, Policy, SeededNoise, Vault

from tests.cells.fleet import CELL, CLIP, LEARNER, Party, Round, belongs, fleet
from tests.support.vaults import make_served, serve_vault

SPARE = Cell(100, 100, 10, 0.7, 1)
BUDGET = Budget(1.0, 1e-5, "device", "add-remove")


def test_a_round_through_a_socket_equals_a_direct_one(tmp_path: Path) -> None:
    parties = fleet(8)
    party = parties[0]
    path = tmp_path / "vault.sock"
    with (
        serve_vault(make_served(party.vault, party.name, BUDGET), path),
        closing(RemoteVault(path, owner=party.name, budget=BUDGET, patience=1.0, waits=Waits())) as remote,
    ):
        remote_parties = [Party(party.name, remote, party.ledger), *parties[1:]]  # type: ignore[arg-type]
        led = Round.called(remote_parties).join().mask()
        stands = [led.stand(index, range(8)) for index in range(8)]
        revealed = {index: led.reveal(index, stands[:6]) for index in range(6)}
        led.parties = parties
        assert not led.open(range(8), revealed).cheaters
        assert (remote.spending().charges, remote.spending().releases) == (1, 1)
        assert remote.spending().alone is not None
        assert remote.statement.epsilon_alone is not None


def test_a_cell_s_vault_answers_no_query_and_another_takes_no_part() -> None:
    party = fleet(1)[0]
    refused = party.vault.answer(Query(LEARNER, "mean", 0, np.empty(0)))
    assert isinstance(refused, Refused)
    assert refused.reason == "query"
    vault = _vault(None)
    answer = vault.step(CellQuery(LEARNER, steps.encode_step(steps.Begin(0, b""))))
    assert isinstance(answer, Refused)
    assert "does not take part in secure sums" in answer.explanation


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91\xa5Begin", steps.encode_step(steps.Begin(0, bytes(8)))])
def test_invalid_messages_are_refused(payload: bytes) -> None:
    answer = _vault(CELL).step(CellQuery(LEARNER, payload))
    assert isinstance(answer, Refused)
    assert answer.reason == "query"


def test_another_learner_is_refused() -> None:
    answer = _vault(CELL).step(CellQuery("golf", steps.encode_step(steps.Begin(0, b""))))
    assert isinstance(answer, Refused)


def test_a_closed_vault_takes_no_part() -> None:
    vault = _vault(CELL)
    vault.end(lambda: None, "another task has begun")
    answer = vault.step(CellQuery(LEARNER, steps.encode_step(steps.Begin(0, b""))))
    assert not isinstance(answer, CellAnswer)
    assert answer.reason == "task"


def test_noise_decreases_with_honest_members_and_increases_with_spare_rounds() -> None:
    large, small, spare = (_calibrate(cell) for cell in (Cell(100, 100, 10, 0.7), Cell(10, 10, 1, 0.7), SPARE))
    assert large.sigma * large.step == pytest.approx(3.7306, rel=1e-3)
    assert large.share(100) * large.step == pytest.approx(3.7306 / 60**0.5, rel=5e-3)
    assert small.share(10) * small.step == pytest.approx(3.7306 / 6**0.5, rel=5e-3)
    assert spare.sigma * spare.step == pytest.approx(3.7306 * 2**0.5, rel=1e-3)
    with pytest.raises(PrivacyError, match=r"one.*sum"):
        _calibrate(CELL, sums=0)


@pytest.mark.parametrize(
    "cell, key", [(Cell(9, 8, 0, 0.7), "min"), (Cell(8, 9, 8, 0.7), "colluding"), (Cell(2, 9, 2, 0.6), "colluding")]
)
def test_rules_that_hide_no_member_are_refused(cell: Cell, key: str) -> None:
    assert cell.defect is not None
    assert cell.defect[0] == key
    assert CELL.defect is None


@pytest.mark.parametrize(
    "policy, message",
    [
        (Policy(approve="auto"), "set smallest_cell"),
        (Policy(approve="auto", smallest_cell=7), "7 devices"),
        (Policy(approve="auto", smallest_cell=6, colluding=2), "2 colluding"),
        (Policy(approve="auto", smallest_cell=6), None),
    ],
)
def test_a_cell_task_needs_the_owner_s_permission(policy: Policy, message: str | None) -> None:
    def check() -> None:
        policy.check(algorithm="average", unit="device", purpose="", cell=CELL)

    policy.check(algorithm="average", unit="device", purpose="", cell=None)
    if message is None:
        check()
    else:
        with pytest.raises(TaskRefused, match=message):
            check()


def _vault(cell: Cell | None) -> Vault:
    return build(
        records=Records(np.zeros((1, 2)), np.zeros(1, dtype=np.int64)),
        kernel=None,
        terms=MeanTerms(LEARNER, Profile(2, CLIP), cell),
        ledger=Ledger.in_memory("member-00", BUDGET),
        noise=SeededNoise(1),
        verify_signature=belongs,
    )


def _calibrate(cell: Cell, sums: int = 1) -> CellMechanism:
    return calibrate_cell(cell, sums=sums, clip=1.0, size=4, epsilon=1.0, delta=1e-5, neighbouring="add-remove")


def test_each_masked_vector_is_charged_and_drawn_separately() -> None:
    """Two rounds at one slot, with two offers, have two charges and two noise shares."""
    parties = fleet(8, cell=Cell(4, 16, 2, 0.7, 1))
    parts = []
    for turn in (1, 2):
        Round.called(parties).join().mask()
        assert parties[0].ledger.spending().charges == turn
        (_, stored) = list(_stored(parties[0].ledger))[-1]
        parts.append(stored)
    assert parts[0] != parts[1]


def test_a_noise_share_is_drawn_for_its_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a member without records, the unmasked vector is its noise, which differs in each round."""
    drawn = []
    apply = CellMechanism.apply

    def apply_and_record(self: CellMechanism, *arguments: Any) -> Any:
        drawn.append(apply(self, *arguments).tolist())
        return apply(self, *arguments)

    monkeypatch.setattr(CellMechanism, "apply", apply_and_record)
    parties = fleet(8, length=0.0, cell=Cell(4, 16, 2, 0.7, 1))
    for _ in range(2):
        Round.called(parties).join().mask()
    assert len(drawn) == 16
    assert len({tuple(item) for item in drawn}) == 16


def _stored(ledger: Ledger) -> Iterator[tuple[bytes, StoredRelease]]:
    for query, _, _ in ledger.charges():
        if (result := ledger.stored_release(query)) is not None:
            yield query, result
