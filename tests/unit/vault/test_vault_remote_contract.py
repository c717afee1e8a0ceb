"""Contract of a vault, in the agent's process or behind a socket."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.node.waits import Waits
from sottovoce.privacy.api import Answer, Query, Refused, Release, Status
from sottovoce.privacy.rpc.remote import RemoteVault
from sottovoce.privacy.vault import Budget, Vault

from tests.support.vaults import make_served, serve_vault

OWNER = "meter-17"
SIZE = 12
ConnectionGate = Vault | RemoteVault
MakeFront = Callable[..., ConnectionGate]


@pytest.fixture(params=["in process", "separate"])
def front(
    request: pytest.FixtureRequest, make_vault: Callable[..., Vault], tmp_path: Path, budget: Budget
) -> Iterator[MakeFront]:
    """Makes vaults one after another, each over the previous one's ledger, which is closed."""
    with ExitStack() as stack:
        open_now = stack.enter_context(ExitStack())

        def make(**options: Any) -> ConnectionGate:
            open_now.close()
            vault = make_vault(**options)
            open_now.callback(vault.close)
            if request.param == "in process":
                return vault
            path = tmp_path / "vault.sock"
            open_now.enter_context(serve_vault(make_served(vault, OWNER, budget), path))
            remote = RemoteVault(path, owner=OWNER, budget=budget, patience=1.0, waits=Waits())
            return open_now.enter_context(closing(remote))

        yield make


def question(slot: int, kind: str = "gradient", point: Any = None) -> Query:
    return Query("clipd2p", kind, slot, np.zeros(SIZE) if point is None else np.asarray(point, dtype=np.float64))


def get_release(answer: Answer) -> Release:
    assert not isinstance(answer, Refused)
    return answer


def test_the_same_query_has_the_same_answer_across_a_restart(front: MakeFront) -> None:
    first = get_release(front().answer(question(0)))
    vault = front()
    for again in (question(0), question(0, point=np.ones(SIZE))):
        answer = get_release(vault.answer(again))
        assert answer.value.tobytes() == first.value.tobytes()
        assert (answer.query_id, answer.step, answer.simulated) == (first.query_id, first.step, False)
    assert (vault.spending().charges, vault.spending().releases) == (1, 1)


def test_another_query_has_other_noise(front: MakeFront) -> None:
    vault = front()
    values = {get_release(vault.answer(question(slot))).value.tobytes() for slot in range(3)}
    assert len(values) == 3


def test_a_spent_budget_is_refused_and_old_answers_are_still_returned(front: MakeFront) -> None:
    vault = front(releases=3)
    first = [get_release(vault.answer(question(slot))).value.tobytes() for slot in range(3)]
    spent = vault.spending()
    assert 1.99 < spent.epsilon <= 2.0
    for slot in (3, 4, 2**63 - 1):
        refusal = vault.answer(question(slot))
        assert isinstance(refusal, Refused)
        assert (refusal.reason, refusal.query_id) == ("budget", question(slot).id)
    assert vault.spending() == spent
    vault = front(releases=3)
    assert [get_release(vault.answer(question(slot))).value.tobytes() for slot in range(3)] == first
    assert vault.spending() == spent


@pytest.mark.parametrize(
    "query",
    [
        question(0, kind="record"),
        question(0, kind=""),
        question(0, point=np.zeros(SIZE - 1)),
        question(0, point=[]),
        question(0, point=np.zeros((1, SIZE))),
        question(0, point=np.full(SIZE, np.nan)),
        question(0, point=np.full(SIZE, -np.inf)),
    ],
    ids=range(7),
)
def test_invalid_queries_cost_nothing(front: MakeFront, query: Query) -> None:
    vault = front()
    refusal = vault.answer(query)
    assert isinstance(refusal, Refused)
    assert (refusal.reason, refusal.query_id) == ("query", query.id)
    assert vault.spending().charges == 0


def test_without_records_noise_is_still_added(front: MakeFront) -> None:
    vault = front(device_records=Records(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)))
    assert np.abs(get_release(vault.answer(question(0))).value).max() > 0
    assert vault.spending().charges == 1


def test_every_number_is_on_the_grid(front: MakeFront) -> None:
    release = get_release(front().answer(question(0)))
    assert release.value.dtype == np.int64
    assert release.value.shape == (SIZE,)
    assert np.frexp(release.step)[0] == 0.5
    assert not release.value.flags.writeable


def test_the_guarantee_is_the_vault_s(front: MakeFront) -> None:
    vault = front()
    statement = vault.statement
    assert (statement.epsilon, statement.delta, statement.unit, statement.status) == (
        2.0,
        1e-5,
        "record",
        Status.PROVED,
    )
    assert get_release(vault.answer(question(0))).statement == statement


def test_the_ledger_s_content_is_available(front: MakeFront) -> None:
    vault = front()
    empty = vault.tip()
    get_release(vault.answer(question(0)))
    tip = vault.tip()
    assert (empty.charges, tip.charges, tip.released) == (0, 1, 1)
    assert vault.mark(0, 0) == empty.mark
    assert vault.mark(1, 1) == tip.mark != empty.mark
    assert vault.mark(2, 0) is None


async def test_a_query_returns_its_answer(front: MakeFront) -> None:
    vault = front()
    first, second = await asyncio.gather(vault.ask(question(0)), vault.ask(question(0)))
    assert get_release(first).value.tobytes() == get_release(second).value.tobytes()
    assert vault.spending().charges == 1
