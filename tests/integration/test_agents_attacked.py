"""Attacks by a fleet member: with its own certificate and any bytes, it can only give an agent shares."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.attacker import WEIGHT_ONE, Attacker, Outcome, flip_bits, share
from tests.support.devices import kernel, new_device
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

SIZE = kernel().size
REFUSED = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture(scope="module")
def agent(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that only receives after its first cycle."""
    device = new_device(fleet, tmp_path_factory.mktemp("attacked") / "a")
    device.configure(learner={"period": 3600.0, "steps": 1})
    with running(device) as (process,):
        until(lambda: process.status()["steps_done"] == 1, "its only step is complete")
        yield process
        assert process.end() == 0, "an attack must not break it"
        assert "Traceback" not in process.log()


@pytest.fixture
def attacker(agent: AgentProcess, fleet: Fleet, tmp_path: Path) -> Iterator[Attacker]:
    """A member that the agent does not know yet, so every refusal is a new line in its log."""
    with Attacker(agent.device, enrol(fleet, tmp_path / "attacker")) as member:
        yield member


@pytest.fixture
def accomplice(agent: AgentProcess, fleet: Fleet, tmp_path: Path) -> Iterator[Attacker]:
    with Attacker(agent.device, enrol(fleet, tmp_path / "accomplice")) as member:
        yield member


def refusal_count(agent: AgentProcess, reason: str) -> int:
    return int(agent.status()["refused"]["messages"].get(reason, 0))


def refusal_line(agent: AgentProcess, attacker: Attacker, reason: str) -> str:
    """Return the only log line about refusing this attacker for this reason."""
    assert attacker.identity is not None
    return agent.logged_line("message-refused", f"sender={attacker.identity.node_id}", f"reason={reason} ")


def assert_refused(agent: AgentProcess, attacker: Attacker, raws: list[bytes], reason: str) -> None:
    """Check that each message is refused for this reason, counted, and logged in one line, and that nothing changes."""
    before, counted = agent.facts(), refusal_count(agent, reason)
    for raw in raws:
        outcome = attacker.deliver(raw)
        assert (outcome.duplicate, outcome.code) == (None, REFUSED)
        assert outcome.details.startswith(f"{reason}: ")
    assert agent.facts() == before
    assert refusal_count(agent, reason) == counted + len(raws)
    assert refusal_line(agent, attacker, reason)


def test_a_share_is_applied_once_even_if_it_arrives_repeatedly(agent: AgentProcess, attacker: Attacker) -> None:
    before = agent.status()
    raw = attacker.envelope(sequence=1)
    assert attacker.deliver(raw) == Outcome(duplicate=False)
    after = agent.facts()
    assert after["push_sum_weight"] == before["push_sum_weight"] + 0.5
    assert after["received"] == before["traffic"]["received"] + 1
    for _ in range(3):
        assert attacker.deliver(raw) == Outcome(duplicate=True)
    assert agent.facts() == after
    assert agent.status()["traffic"]["duplicates"] == before["traffic"]["duplicates"] + 3


def test_a_sequence_number_counts_once_whatever_its_message_contains(agent: AgentProcess, attacker: Attacker) -> None:
    attacker.deliver(attacker.envelope(sequence=5))
    before = agent.facts()
    others = [share(weight=WEIGHT_ONE), share(np.full(SIZE, 7)), share(np.zeros(SIZE + 1))]
    for sequence in (5, 4, 1):
        for payload in others:
            assert attacker.deliver(attacker.envelope(sequence=sequence, payload=payload)) == Outcome(duplicate=True)
    assert agent.facts() == before


def test_two_members_are_distinguished(agent: AgentProcess, attacker: Attacker, accomplice: Attacker) -> None:
    for member in (attacker, accomplice):
        assert member.deliver(member.envelope(sequence=1)) == Outcome(duplicate=False)


def test_a_message_for_another_device_is_refused(
    agent: AgentProcess, attacker: Attacker, fleet: Fleet, tmp_path: Path
) -> None:
    other = enrol(fleet, tmp_path / "other").node_id
    assert_refused(agent, attacker, [attacker.envelope(sequence=i, recipient=other) for i in (1, 2, 3)], "recipient")
    assert attacker.deliver(attacker.envelope(sequence=1)) == Outcome(duplicate=False)


def test_a_message_counts_only_at_its_recipient(
    agent: AgentProcess, attacker: Attacker, fleet: Fleet, tmp_path: Path
) -> None:
    device = new_device(fleet, tmp_path / "b").configure(learner={"period": 3600.0, "steps": 1})
    raw = attacker.envelope(sequence=1)
    with running(device) as (second,):
        until(lambda: second.status()["steps_done"] == 1, "its only step is complete")
        before = second.facts()
        with Attacker(device, attacker.identity) as beside:
            assert beside.deliver(raw).details == "recipient: the envelope is for another device"
        assert second.facts() == before
        assert attacker.deliver(raw) == Outcome(duplicate=False)


def test_a_sender_s_older_incarnation_is_refused(agent: AgentProcess, attacker: Attacker) -> None:
    assert attacker.deliver(attacker.envelope(incarnation=2, sequence=9)) == Outcome(duplicate=False)
    assert attacker.deliver(attacker.envelope(incarnation=3, sequence=1)) == Outcome(duplicate=False)
    older = [attacker.envelope(incarnation=life, sequence=i) for life in (2, 1, 0) for i in (1, 9, 10)]
    assert_refused(agent, attacker, older, "incarnation")
    assert attacker.deliver(attacker.envelope(incarnation=3, sequence=2)) == Outcome(duplicate=False)


def test_numbers_too_large_to_store_are_refused(agent: AgentProcess, attacker: Attacker) -> None:
    raws = [
        attacker.envelope(sequence=2**63),
        attacker.envelope(sequence=2**64 - 1),
        attacker.envelope(incarnation=2**63, sequence=1),
        attacker.envelope(incarnation=2**64 - 1, sequence=1),
    ]
    assert_refused(agent, attacker, raws, "range")
    assert attacker.deliver(attacker.envelope(incarnation=2**63 - 1, sequence=2**63 - 1)) == Outcome(duplicate=False)


def test_no_bit_of_a_message_can_be_altered(agent: AgentProcess, fleet: Fleet, tmp_path: Path) -> None:
    observed: set[str] = set()
    for seed in (1, 2, 3):  # each member may hand over only a limited number of messages
        with Attacker(agent.device, enrol(fleet, tmp_path / str(seed))) as member:
            member.deliver(member.envelope(sequence=1))
            before, counted = agent.facts(), sum(agent.status()["refused"]["messages"].values())
            altered = flip_bits(member.envelope(sequence=2), sample=200, seed=seed)
            outcomes = [member.deliver(raw) for raw in altered]
            assert {outcome.code for outcome in outcomes} == {REFUSED}
            reasons = {outcome.details.partition(":")[0] for outcome in outcomes}
            assert agent.facts() == before
            assert sum(agent.status()["refused"]["messages"].values()) == counted + len(altered)
            assert all(refusal_line(agent, member, reason) for reason in reasons)
            assert member.deliver(member.envelope(sequence=2)) == Outcome(duplicate=False)
            observed |= reasons
    assert {"signature", "malformed", "sender", "recipient", "fleet"} == observed


def test_no_bytes_can_be_removed_or_added(agent: AgentProcess, attacker: Attacker) -> None:
    raw, before = attacker.envelope(sequence=1), agent.facts()
    for other in (raw[:-1], raw[1:], raw[:-64], raw + b"\0", raw + raw, raw + b"\x7a\x01x", b""):
        assert attacker.deliver(other).code is REFUSED
    assert agent.facts() == before


def test_a_message_signed_by_another_device_is_refused(
    agent: AgentProcess, attacker: Attacker, accomplice: Attacker
) -> None:
    assert_refused(agent, attacker, [accomplice.envelope(sequence=i) for i in (1, 2)], "sender")
    assert accomplice.deliver(accomplice.envelope(sequence=1)) == Outcome(duplicate=False)


def test_a_member_cannot_sign_in_the_agent_s_own_name(agent: AgentProcess, attacker: Attacker) -> None:
    with Attacker(agent.device, agent.device.identity) as insider:
        assert_refused(agent, attacker, [insider.envelope(sequence=1)], "sender")


WRONG_SHARES = {
    "one number more": (share(np.zeros(SIZE + 1)), "shape"),
    "one number": (share(np.zeros(1)), "shape"),
    "no number": (share(np.zeros(0)), "shape"),
    "half a number": (b"\x0a\x0c" + b"\0" * 12 + b"\x10\x01", "shape"),
    "too much weight": (share(weight=MAX_WEIGHT + 1), "range"),
    "no weight": (share(weight=0), "range"),
    "the largest weight": (share(weight=2**64 - 1), "range"),
    "too large a number": (share(np.full(SIZE, MAX_NUMERATOR + 1)), "range"),
    "the smallest integer": (share(np.full(SIZE, -(2**63))), "range"),
    "not a share": (b"\xff\xff\xff", "malformed"),
}


@pytest.mark.parametrize("case", WRONG_SHARES)
def test_an_invalid_share_is_refused(agent: AgentProcess, attacker: Attacker, case: str) -> None:
    payload, reason = WRONG_SHARES[case]
    assert_refused(agent, attacker, [attacker.envelope(sequence=i, payload=payload) for i in (1, 2)], reason)
    assert attacker.deliver(attacker.envelope(sequence=1)) == Outcome(duplicate=False)


@pytest.mark.parametrize("payload_type", ["", "push-sum-share/2", "push-sum-share", "pickle", "x" * 10_000])
def test_a_payload_of_an_unknown_type_is_refused(agent: AgentProcess, attacker: Attacker, payload_type: str) -> None:
    assert_refused(agent, attacker, [attacker.envelope(sequence=1, payload_type=payload_type)], "type")


def test_garbage_is_refused(agent: AgentProcess, attacker: Attacker) -> None:
    garbage = [
        b"\x08",
        b"hello, agent",
        b"\xff" * 1000,
        b"\x0a\xff\xff\xff\xff\x0f",
        np.random.default_rng(1).bytes(5000),
    ]
    assert_refused(agent, attacker, garbage, "malformed")


def test_an_oversized_message_is_reported_in_one_line(agent: AgentProcess, attacker: Attacker) -> None:
    before, counted = agent.facts(), refusal_count(agent, "incomplete")
    memory = agent.status()["resources"]["rss_mib"]
    outcome = attacker.deliver(b"\0" * 100_000_000)
    assert outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    until(lambda: refusal_count(agent, "incomplete") == counted + 1, "the refusal is counted")
    assert "the message exceeded the size limit" in refusal_line(agent, attacker, "incomplete")
    assert attacker.deliver(b"\0" * (2**18 + 1)).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert_refused(agent, attacker, [b"\0" * (2**18 - 1000)], "malformed")
    assert agent.facts() == before
    assert agent.status()["resources"]["rss_mib"] < memory + 32, "the message was never stored in memory"
    assert attacker.deliver(attacker.envelope(sequence=1)) == Outcome(duplicate=False)


def test_the_service_has_only_one_method(agent: AgentProcess, attacker: Attacker) -> None:
    before = agent.facts()
    for method in ("/sottovoce.v1.Peer/Other", "/sottovoce.v1.Peer/", "/grpc.health.v1.Health/Check", "/x/Deliver"):
        assert attacker.deliver(attacker.envelope(sequence=1), method).code is grpc.StatusCode.UNIMPLEMENTED
    assert agent.facts() == before


def test_a_flood_of_shares_leaves_the_weight_finite(agent: AgentProcess, attacker: Attacker) -> None:
    """The largest permitted shares are applied until the numerator is full; further shares are refused, not wrapped."""
    before = agent.status()["push_sum_weight"]
    nearly = MAX_NUMERATOR - 2**50  # other tests and noise leave the numerator far below 2^50
    numbers = (nearly, nearly, MAX_NUMERATOR, MAX_NUMERATOR)
    payloads = [share(np.full(SIZE, number), weight=MAX_WEIGHT) for number in numbers]
    outcomes = [attacker.deliver(attacker.envelope(sequence=i, payload=full)) for i, full in enumerate(payloads, 1)]
    assert outcomes[0] == Outcome(duplicate=False)
    for outcome in outcomes[1:]:
        assert outcome.code is REFUSED
        assert outcome.details.startswith("range: a push-sum share would overflow the numerator")
    assert agent.status()["push_sum_weight"] == before + 4.0
    assert np.isfinite(agent.model()).all()
    drained = share(np.full(SIZE, -nearly), weight=1)
    assert attacker.deliver(attacker.envelope(sequence=5, payload=drained)) == Outcome(duplicate=False)


def test_a_member_that_floods_valid_shares_is_limited_by_its_quota(
    agent: AgentProcess, attacker: Attacker, accomplice: Attacker
) -> None:
    before, counted = agent.status(), refusal_count(agent, "quota")
    outcomes = [attacker.deliver(attacker.envelope(sequence=number)) for number in range(1, 100)]
    taken = outcomes.count(Outcome(duplicate=False))
    assert 64 <= taken < 70
    assert all(outcome.details.startswith("quota: ") for outcome in outcomes[taken:])
    assert refusal_count(agent, "quota") == counted + len(outcomes) - taken
    assert agent.status()["push_sum_weight"] == before["push_sum_weight"] + taken / 2, "and the mass is exact"
    assert attacker.deliver(attacker.envelope(sequence=taken)) == Outcome(duplicate=True), "a copy costs nothing"
    assert accomplice.deliver(accomplice.envelope(sequence=1)) == Outcome(duplicate=False), "others are served"
    refusal_line(agent, attacker, "quota")
