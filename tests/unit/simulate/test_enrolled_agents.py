"""Revocation, renewal, wrong clocks and full disks on simulated agents, and the effect of each."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
from sottovoce.errors import LedgerUnwritable, MessageRefused, UsageError
from sottovoce.privacy.accounting.events import PureRelease
from sottovoce.privacy.secure_sum.statements import Ready, Statement, body_bytes
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce_lab.simulator import Faults
from sottovoce_lab.simulator.disk import Disk
from sottovoce_lab.simulator.enrolment import Member, enrol_agents
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher

AGENTS, CYCLES = 8, 16


class Seen:
    """An observer of every event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, float, str]] = []
        self.last: dict[str, Any] = {}

    def observe(self, event: str, at: float, device: str, state: Any, **facts: Any) -> None:
        self.events.append((event, at, device))
        self.last[device] = state


def run_fleet(learner: str, *words: str, epsilon: float | None = 4.0, **settings: Any) -> tuple[dict[str, Any], Seen]:
    observed = Seen()
    options = Options(
        agents=AGENTS,
        learner=learner,
        fidelity="sound",
        model=None,
        data=f"synthetic#features=3&classes=2&records={24 * AGENTS}&seed=1",
        transport="memory",
        epsilon=epsilon,
        delta=1e-5,
        cycles=CYCLES,
        period=1.0,
        topology="full",
        seed=3,
        faults=Faults.parse(words),
        fault_specs=list(words),
        settings={key.replace("__", "."): value for key, value in settings.items()},
    )
    return memory.run(plan(options), Watcher(), observed).document(), observed


def sign_statement(member: Member) -> Statement:
    return member.provenance.sign(Statement(member.node, body_bytes(Ready(bytes(32), bytes(32)))))


def test_agents_that_share_a_verifier_refuse_forged_statements() -> None:
    first, second, third = enrol_agents(3, 1, None, lambda: 1.0)
    genuine = sign_statement(first)
    for member in (second, third, second):
        member.provenance.verify(genuine)
        member.witness.verify(genuine)
    for forged in (
        replace(genuine, body=body_bytes(Ready(bytes(32), bytes([1]) * 32))),
        replace(genuine, signature=sign_statement(second).signature),
        replace(genuine, owner=second.node),
    ):
        for verify in (third.provenance.verify, third.witness.verify):
            with pytest.raises(MessageRefused, match="published document"):
                verify(forged)
    third.revoked_ids.add(first.node)
    with pytest.raises(MessageRefused, match="revoked"):
        third.witness.verify(genuine)
    second.witness.verify(genuine)


def test_revoked_agents_stop_and_their_contributions_are_removed() -> None:
    document, observed = run_fleet("clipd2p", "revoke=0.25@cycle:8", learner__mixing="contributions")
    removed = {item["id"] for item in document["agents"][-2:]}
    assert [item["alive"] for item in document["agents"]] == [True] * (AGENTS - 2) + [False] * 2
    assert {device for event, _, device in observed.events if event == "kill"} == removed
    stored = [{item.owner for item in state.held.values()} for state in observed.last.values() if state is not None]
    assert len(stored) == AGENTS - 2
    assert all(owners and not owners & removed for owners in stored)


def test_a_full_disk_stops_an_agent_until_there_is_space() -> None:
    document, observed = run_fleet("clipd2p", "disk-full=0.5@cycle:3-9", learner__mixing="push-sum")
    killed = [at for event, at, _ in observed.events if event == "kill"]
    assert len(killed) > AGENTS / 2, "each tried more than once"
    assert all(2 <= at <= 9 for at in killed)
    assert all(item["alive"] and item["cycles"] >= CYCLES for item in document["agents"])


def test_a_ledger_on_a_full_disk_fails_and_continues_afterwards() -> None:
    disk = Disk()
    ledger = Ledger.in_memory("agent", Budget(None, 1e-5, "record", "add-remove"), disk.connection)
    event = PureRelease("laplace", 1, 4, 1995, 1000, 1.995)
    assert ledger.charge(b"first", event)
    disk.is_full = True
    queries = (number.to_bytes(32, "big") for number in range(100))
    with pytest.raises(LedgerUnwritable, match="full"):
        all(ledger.charge(query, event) for query in queries)
    charges = ledger.head().charges
    assert charges < 100
    assert len(list(ledger.charges())) == charges
    disk.is_full = False
    assert ledger.charge(b"last", event)
    assert ledger.head().charges == charges + 1


def test_certificates_expire_are_renewed_and_are_checked_by_each_agent_s_own_clock() -> None:
    days = [0.0]
    one, other = enrol_agents(2, 5, 6, lambda: days[0])
    assert one.node == enrol_agents(2, 5, 6, lambda: 0.0)[0].node, "ids follow from the seed"
    statement = sign_statement(one)
    other.provenance.admit(statement)
    other.witness.verify(statement)
    days[0] = 7.0
    with pytest.raises(MessageRefused, match=r"not.*valid"):
        other.provenance.admit(statement)
    other.provenance.verify(statement)
    one.renew()
    other.provenance.admit(sign_statement(one))
    other.clock_error_days = 40.0
    with pytest.raises(MessageRefused, match=r"not.*valid"):
        other.witness.verify(sign_statement(one))
    other.clock_error_days = 0.0
    other.revoked_ids.add(one.node)
    with pytest.raises(MessageRefused, match="revoked"):
        other.provenance.admit(sign_statement(one))


@pytest.mark.parametrize("word", ["renew=4", "clock=0.5@cycle:1-9"])
def test_secure_sums_succeed_with_wrong_clocks(word: str) -> None:
    document, _ = run_fleet("average", word, privacy__noise="cell", privacy__cell__min=4)
    assert all(item["alive"] for item in document["agents"])
    assert document["privacy"]["ledgers_agree"]
    assert sum(item["cycles"] > 0 for item in document["agents"]) >= AGENTS / 2


@pytest.mark.parametrize("word", ["revoke=0.1@cycle:3", "renew=4", "clock=0.5@cycle:1-9", "disk-full=0.5@cycle:1-9"])
def test_only_simulated_agents_support_these_faults(word: str) -> None:
    with pytest.raises(UsageError, match="--transport memory"):
        Options(
            agents=4,
            learner="clipd2p",
            fidelity="sound",
            model=None,
            data="synthetic",
            transport="grpc",
            epsilon=1.0,
            delta=1e-5,
            cycles=20,
            period=1.0,
            topology="full",
            seed=0,
            faults=Faults.parse([word]),
            fault_specs=[word],
            settings={},
        )


def test_an_attack_in_a_noise_free_fleet_is_finite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        document, _ = run_fleet("push-sum", "dishonest=0.25@close", epsilon=None, learner__mixing="pairwise")
    assert document["final"]["loss_mean"] >= 0
