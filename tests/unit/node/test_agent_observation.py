"""Observation of an agent: liveness, readiness and waits, and the values that are not published."""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sottovoce.config import ObserveSection
from sottovoce.errors import ConfigError
from sottovoce.net.transports import Listener
from sottovoce.node.observation import (
    ObservedAgent,
    can_publish_machine,
    core_problem,
    privacy_values,
    readiness,
    serve_observation,
    wait_values,
)
from sottovoce.node.waits import Waits
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.vault import Budget, Ledger

ID = "a" * 32


def agent(
    *,
    troubles: tuple[str, ...] = ("",),
    days: float = 1.0,
    revoked: frozenset[str] = frozenset(),
    waits: Waits | None = None,
    metrics: str = "127.0.0.1:1",
    vault: str | None = None,
    run_serially: Callable[[Any], Any] | None = None,
) -> ObservedAgent:
    names = ("grpc", "mqtt")[: len(troubles)]
    config = SimpleNamespace(
        transport=SimpleNamespace(use=names),
        observe=ObserveSection(metrics=metrics, allow_remote=True),
        vault=SimpleNamespace(socket=vault),
    )
    fake = SimpleNamespace(
        config=config,
        transport=SimpleNamespace(listener=lambda: Listener(0, 0, troubles=troubles)),
        identity=SimpleNamespace(node_id=ID, not_after=datetime.now(UTC) + timedelta(days=days)),
        trust=SimpleNamespace(revoked=revoked),
        waits=waits or Waits(),
        run_serially=run_serially,
    )
    return cast(ObservedAgent, fake)


async def test_a_responsive_core_is_alive() -> None:
    async def run_serially(act: Callable[[], list[Any]]) -> None:
        assert act() == []

    assert await core_problem(agent(run_serially=run_serially)) == ""


async def test_a_stuck_core_is_not_alive() -> None:
    async def run_serially(act: Callable[[], list[Any]]) -> None:
        await asyncio.Event().wait()

    assert await core_problem(agent(run_serially=run_serially), 0.01) == "the core has not responded for 0.01 s"


async def test_a_core_that_has_shut_down_is_not_alive() -> None:
    async def run_serially(act: Callable[[], list[Any]]) -> None:
        raise RuntimeError("cannot schedule new futures after shutdown")

    assert await core_problem(agent(run_serially=run_serially)) == "the agent is stopping"


def test_a_device_is_ready_while_one_transport_is_up() -> None:
    fine = {"identity": "", "ledger": "", "transport": ""}
    assert readiness(agent()) == fine
    assert readiness(agent(troubles=("", "no broker"))) == fine
    assert readiness(agent(troubles=("it does not listen yet", "no broker"))) == {
        **fine,
        "transport": "grpc: it does not listen yet; mqtt: no broker",
    }


def test_a_device_is_not_ready_without_identity_or_vault() -> None:
    assert readiness(agent(days=-1))["identity"] == "this device's certificate has expired; run `sottovoce fleet renew`"
    assert readiness(agent(revoked=frozenset({ID})))["identity"] == "this device has been revoked by its fleet"
    waits = Waits()
    waits.begin("vault-process", "the vault's process to answer", 60.0)
    assert readiness(agent(waits=waits))["ledger"] == "the vault process is not responding"


async def test_without_the_metrics_package_nothing_starts_and_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "sottovoce.ops.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client.exposition", None)
    with pytest.raises(ConfigError, match=r"sottovoce\[metrics\]"):
        async with serve_observation(agent()):
            pass


@pytest.mark.parametrize(
    "metrics, vault, told",
    [("127.0.0.1:1", None, True), ("0.0.0.0:1", None, False), ("0.0.0.0:1", "vault.sock", True)],
)
def test_other_machines_see_machine_metrics_only_if_it_has_no_records(
    metrics: str, vault: str | None, told: bool
) -> None:
    assert can_publish_machine(agent(metrics=metrics, vault=vault)) is told


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def told(waits: Waits, kind: str) -> dict[str, float]:
    """Return the metrics for one kind of wait, without their prefix."""
    values = {
        name.removeprefix("sottovoce_"): cast(dict[str, float], value) for name, value in wait_values(waits).items()
    }
    return {name: value[kind] for name, value in values.items()}


def test_waits_are_added_up_by_kind(clock: list[float]) -> None:
    waits = Waits()
    waits.begin("peer:a", "a to answer", 5.0)
    waits.begin("peer:b", "b to answer", 5.0)
    clock[0] = 103.0
    waits.begin("peer:a", "pause", 5.0)
    waits.end("peer:b")
    clock[0] = 104.0
    assert told(waits, "peer") == {
        "waits": 1,
        "waits_overdue": 0,
        "waits_begun_total": 3,
        "wait_seconds_total": 6.0,
        "wait_longest_seconds": 1.0,
    }
    assert set(told(waits, "wear").values()) == {0}


def test_a_continuing_wait_counts_once_however_often_it_is_sampled(clock: list[float]) -> None:
    waits = Waits()
    for now, since in ((100.0, 100.0), (101.0, 101.0), (103.0, 100.0), (104.0, 101.0)):  # two waits for the same thing
        clock[0] = now
        waits.begin("ledger", "echoes", 60.0, since, repeats=True)
    assert told(waits, "ledger")["waits_begun_total"] == 1
    assert told(waits, "ledger")["wait_longest_seconds"] == 3.0
    clock[0] = 110.0
    waits.end("ledger")
    waits.end("ledger")
    assert told(waits, "ledger")["wait_seconds_total"] == 10.0


def test_a_wait_beyond_its_deadline_is_overdue_unless_it_repeats(clock: list[float]) -> None:
    waits = Waits()
    waits.begin("peer:a", "a", 1.0)
    waits.begin("ledger", "echoes", 1.0, repeats=True)
    clock[0] = 105.0
    assert told(waits, "peer")["waits_overdue"] == 0, "a busy machine may be a little late"
    clock[0] = 107.0
    assert told(waits, "peer")["waits_overdue"] == 1
    assert told(waits, "ledger")["waits_overdue"] == 0


def test_the_vault_s_response_time_is_not_exposed(clock: list[float]) -> None:
    waits = Waits()
    waits.begin("vault", "an answer", 600.0)
    clock[0] = 107.0
    assert all("vault" not in cast(dict[str, float], by_kind) for by_kind in wait_values(waits).values())
    waits.end("vault")
    assert all("vault" not in cast(dict[str, float], by_kind) for by_kind in wait_values(waits).values())


def test_spent_epsilon_and_its_limit_are_those_of_the_current_task() -> None:
    ledger = Ledger.in_memory(ID, Budget(4.0, 1e-5, "device", "add-remove"))
    for epoch in (1, 2):
        ledger.take_up(Mandate(epoch, Budget(1.0, 1e-5, "device", "add-remove"), b"task"))
        assert ledger.charge(bytes([epoch]) * 32, GaussianSum(10, 14))
    fake = SimpleNamespace(
        vault=SimpleNamespace(statement=SimpleNamespace(status="proved", epsilon=ledger.budget.epsilon, delta=1e-5)),
        spending=ledger.spending(),
        head_gossip=SimpleNamespace(
            detector=SimpleNamespace(confirmation_count=0, peers_optional=True, required_peers=0)
        ),
        core=SimpleNamespace(progress=SimpleNamespace(exhausted=False)),
    )
    values = privacy_values(cast(ObservedAgent, fake))
    spent, limit, total = (
        cast(float, values[f"sottovoce_{name}"])
        for name in ("privacy_epsilon_spent", "privacy_epsilon_limit", "ledger_epsilon_spent")
    )
    assert 0 < spent <= limit < total < 2 * limit
