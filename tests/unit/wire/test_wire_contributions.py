"""Contributions on the wire and on disk: unchanged, or refused with a reason."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.algorithms.contributions.codec import ContributionsCodec
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import (
    Change,
    Contribution,
    Contributions,
    ContributionsState,
    rank,
)
from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.net.wire import decode, encode
from sottovoce.net.wire.arrays import MAX_CREDENTIAL_BYTES, MAX_PARAMETERS
from sottovoce.net.wire.v1 import contributions_pb2, state_pb2

from tests.unit.learners.support import STAMP, Stamp, schedule

TYPE = "contributions/1"
NUMBERS = st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=6)

contributions = st.builds(
    Contribution,
    st.text("abcdefgh234567", min_size=1, max_size=32),
    st.integers(1, 2**62),
    NUMBERS.map(lambda numbers: np.array(numbers, dtype=np.int64)),
    st.binary(max_size=40),
    st.binary(min_size=64, max_size=64),
)
changes = st.builds(
    Change,
    st.integers(0, 2**64 - 1),
    st.integers(1, 2**61),
    st.integers(2**61 + 1, 2**62),
    NUMBERS.map(lambda numbers: np.array(numbers, dtype=np.int64)),
    st.binary(max_size=40),
    st.binary(min_size=64, max_size=64),
)
messages = st.builds(
    Contributions,
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 2**62), max_size=6),
    st.lists(contributions, max_size=5, unique_by=lambda one: one.owner).map(tuple),
    changes=st.lists(changes, max_size=3, unique_by=lambda one: one.owner_rank).map(tuple),
    holdings=st.integers(0, 2**64 - 1),
    ordered_steps=st.lists(st.integers(0, 2**62), max_size=4).map(tuple),
)


def facts(one: Contribution) -> tuple[object, ...]:
    return one.owner, one.steps, one.numerator.tolist(), one.credential, one.signature


@given(messages)
def test_every_message_arrives_as_it_was_sent(message: Contributions) -> None:
    arrived = decode(*encode(message))
    assert isinstance(arrived, Contributions)
    assert arrived.steps == message.steps
    assert [facts(contribution) for contribution in arrived.contributions] == [
        facts(contribution) for contribution in message.contributions
    ]
    assert (arrived.holdings, arrived.ordered_steps) == (message.holdings, message.ordered_steps)
    for before, after in zip(message.changes, arrived.changes, strict=True):
        assert replace(after, difference=before.difference) == before
        assert after.difference.tolist() == before.difference.tolist()


def test_an_earlier_version_reads_a_message_without_what_it_does_not_know() -> None:
    """It ignores the fields that it does not know: it sees no list, and answers with everything."""
    change = Change(7, 2, 4, np.array([1, -1]), signature=bytes(64))
    raw = encode(Contributions({}, changes=(change,), holdings=9, ordered_steps=(4, 2)))[1]
    known = contributions_pb2.Contributions.FromString(raw)
    known.ClearField("changes")
    known.ClearField("holdings")
    known.ClearField("ordered_steps")
    assert decode(TYPE, known.SerializeToString()) == Contributions()


def test_the_checksums_of_certificates_arrive_by_rank_and_a_message_of_version_0_1_has_none() -> None:
    listed = Contributions({2**64 - 1: 3, 7: 1}, (), {7: 2**32 - 1, 2**64 - 1: 0})
    assert decode(*encode(listed)) == listed
    earlier = contributions_pb2.Contributions(ranks=[7], steps=[1]).SerializeToString()
    assert decode(TYPE, earlier) == Contributions({7: 1})


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_message_or_refused(payload: bytes) -> None:
    try:
        assert isinstance(decode(TYPE, payload), Contributions)
    except MessageRefused as refusal:
        assert refusal.reason in {"malformed", "shape", "range"}  # noqa: PT017


def make_contribution(**fields: object) -> contributions_pb2.Contribution:
    usual = {"owner": "a", "steps": 1, "size": 1, "width": 2, "packed": b"\x40", "signature": bytes(64)}
    return contributions_pb2.Contribution(**{**usual, **fields})  # type: ignore[arg-type]


def make_change(**fields: object) -> contributions_pb2.Change:
    usual = {"rank": 1, "base": 1, "steps": 2, "size": 1, "coded": b"\x80", "signature": bytes(64)}
    return contributions_pb2.Change(**{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"changes": [make_change(base=2)]}, "range"),
        ({"changes": [make_change(base=0)]}, "range"),
        ({"changes": [make_change(steps=2**63)]}, "range"),
        ({"changes": [make_change(signature=b"short")]}, "range"),
        ({"changes": [make_change(credential=bytes(MAX_CREDENTIAL_BYTES + 1))]}, "range"),
        ({"changes": [make_change(coded=b"")]}, "malformed"),
        ({"changes": [make_change(), make_change(steps=3)]}, "shape"),
        ({"changes": [make_change(rank=i, size=MAX_PARAMETERS // 2 + 1) for i in range(2)]}, "shape"),
        ({"changes": [make_change(rank=i) for i in range(1026)]}, "shape"),
        ({"ordered_steps": range(1026)}, "shape"),
        ({"ordered_steps": [2**63]}, "range"),
        ({"ranks": [1, 2], "steps": [1]}, "shape"),
        ({"ranks": [1, 2], "steps": [1, 1], "certificates": [1]}, "shape"),
        ({"contributions": [make_contribution(steps=0)]}, "range"),
        ({"contributions": [make_contribution(steps=2**63)]}, "range"),
        ({"contributions": [make_contribution(signature=b"short")]}, "range"),
        ({"contributions": [make_contribution(credential=bytes(MAX_CREDENTIAL_BYTES + 1))]}, "range"),
        ({"contributions": [make_contribution(size=0)]}, "shape"),
        ({"contributions": [make_contribution(width=63)]}, "malformed"),
        ({"contributions": [make_contribution(packed=b"")]}, "malformed"),
        ({"contributions": [make_contribution(owner=o, size=MAX_PARAMETERS // 2 + 1) for o in "ab"]}, "shape"),
        ({"contributions": [make_contribution(), make_contribution(steps=2)]}, "shape"),
        ({"contributions": [make_contribution(owner=f"d{i}") for i in range(1026)]}, "shape"),
        ({"ranks": range(1026), "steps": range(1026)}, "shape"),
    ],
)
def test_impossible_messages_are_refused(fields: dict[str, object], reason: str) -> None:
    payload = contributions_pb2.Contributions(**fields).SerializeToString()  # type: ignore[arg-type]
    with pytest.raises(MessageRefused) as exc_info:
        decode(TYPE, payload)
    assert exc_info.value.reason == reason


def test_refusable_or_simulated_content_is_never_sealed() -> None:
    with pytest.raises(InternalError, match=r"bug.*report"):
        encode(Contributions({}, (Contribution("a", 0, np.zeros(1, dtype=np.int64), b"", bytes(64)),)))
    with pytest.raises(PrivacyError, match="simulated"):
        encode(Contributions({}, (Contribution("a", 1, np.zeros(1, dtype=np.int64), b"", bytes(64), simulated=True),)))


def mixer(size: int) -> Mixer:
    plan = schedule(size=size, steps=9)
    return Mixer(plan, np.zeros(size), owner="me", provenance=Stamp(), capacity=8, max_steps=9, dishonest=0.25)


def test_a_state_is_the_same_after_a_restart() -> None:
    codec = ContributionsCodec(mixer(3))
    stored = [Contribution(owner, 4, np.array([1, -2, 2**50]), b"c", STAMP) for owner in ("a", "me")]
    held_by_rank = {rank(item.owner): item for item in stored}
    state = ContributionsState(
        np.array([5, 0, -7]), held_by_rank, cycle=11, step=6, variation=0.3, turn=2, exhausted=True
    )
    decoded = codec.decode(codec.encode(state))
    assert (decoded.cycle, decoded.step, decoded.turn, decoded.exhausted) == (11, 6, 2, True)
    assert decoded.variation == 0.3
    assert decoded.numerator.tolist() == [5, 0, -7]
    assert {at: facts(item) for at, item in decoded.held.items()} == {rank(item.owner): facts(item) for item in stored}


def test_another_model_s_state_is_named_and_a_push_sum_state_restarts_from_the_ledger() -> None:
    raw = ContributionsCodec(mixer(3)).encode(mixer(3).initial_state())
    with pytest.raises(ModelSizeMismatch, match=r"3 parameters.*\b4\b"):
        ContributionsCodec(mixer(4)).decode(raw)
    share = state_pb2.PushSumState(weight=2**40, cycle=3)
    state = ContributionsCodec(mixer(3)).decode(share.SerializeToString())
    assert (state.step, state.held, state.numerator.tolist()) == (0, {}, [0, 0, 0])
