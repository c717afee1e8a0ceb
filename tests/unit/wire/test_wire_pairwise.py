"""Proposals, moves and the state of a device that averages in pairs: unchanged, or refused with a reason."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.algorithms.pairwise.codec import PairwiseCodec
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import Move, PairwiseState, Proposal
from sottovoce.algorithms.push_sum.codec import PushSumCodec
from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.errors import InternalError, MessageRefused, PrivacyError
from sottovoce.net.wire import Receipt, decode, decode_receipt, encode, encode_receipt
from sottovoce.net.wire.v1 import pairwise_pb2

from tests.unit.learners.support import schedule

PROPOSAL, MOVE = "pairwise-proposal/1", "pairwise-move/1"
UNIT = 2**40
numbers = st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=6).map(lambda n: np.array(n, dtype=np.int64))
reaches = st.just(math.inf) | st.floats(1e-300, 1e300)


@given(numbers, st.integers(2, 2**32 - 1), reaches)
def test_a_proposal_arrives_as_it_was_sent(numerator: np.ndarray, parts: int, reach: float) -> None:
    arrived = decode(*encode(Proposal(numerator, parts, reach)))
    assert isinstance(arrived, Proposal)
    assert (arrived.numerator.tolist(), arrived.parts, arrived.reach) == (numerator.tolist(), parts, reach)


@given(numbers)
def test_a_move_arrives_in_a_receipt_as_it_was_sent(numerator: np.ndarray) -> None:
    receipt = decode_receipt(encode_receipt(Receipt(reply=encode(Move(numerator)))))
    assert receipt.reply is not None
    arrived = decode(*receipt.reply)
    assert isinstance(arrived, Move)
    assert arrived.numerator.tolist() == numerator.tolist()


@given(st.sampled_from([PROPOSAL, MOVE]), st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_refused(kind: str, payload: bytes) -> None:
    try:
        assert isinstance(decode(kind, payload), Proposal | Move)
    except MessageRefused as refusal:
        assert refusal.reason in {"malformed", "shape", "range"}  # noqa: PT017


@pytest.mark.parametrize("fields", [{"parts": 1}, {"parts": 0}, {"reach": 0.0}, {"reach": -1.0}, {"reach": math.nan}])
def test_an_offer_beyond_halfway_or_without_a_length_is_refused(fields: dict[str, float]) -> None:
    proposal = pairwise_pb2.Proposal(size=1, width=2, packed=b"\x40", **{"parts": 2, **fields})  # type: ignore[arg-type]
    with pytest.raises(MessageRefused) as exc_info:
        decode(PROPOSAL, proposal.SerializeToString())
    assert exc_info.value.reason == "range"


def test_unacceptable_or_simulated_messages_are_never_encoded() -> None:
    with pytest.raises(InternalError):
        encode(Proposal(np.array([1]), 1, 1.0))
    with pytest.raises(InternalError):
        encode(Move(np.array([2**61])))
    for message in (Proposal(np.array([1]), 2, 1.0, simulated=True), Move(np.array([1]), simulated=True)):
        with pytest.raises(PrivacyError):
            encode(message)


def codec(size: int = 2) -> PairwiseCodec:
    return PairwiseCodec(Pairwise(schedule(size=size), np.zeros(size), reach=1.0, max_steps=1))


@pytest.mark.parametrize("blank", [True, False])
def test_a_state_survives_saving(blank: bool) -> None:
    state = PairwiseState(np.array([3, -(2**50)]), is_blank=blank, cycle=7, step=5, turn=2, exhausted=True)
    result = codec().decode(codec().encode(state))
    assert result.numerator.tolist() == state.numerator.tolist()
    assert (result.is_blank, result.cycle, result.step, result.turn, result.exhausted) == (blank, 7, 5, 2, True)


@pytest.mark.parametrize(
    "weight, blank, model", [(UNIT, False, 6.0), (UNIT // 2, False, 12.0), (3 * UNIT, False, 2.0), (1, True, 0.0)]
)
def test_a_push_sum_device_continues_from_its_estimate(weight: int, blank: bool, model: float) -> None:
    before = PushSumState(np.array([6 * UNIT, 0]), weight, cycle=9, step=4)
    result = codec().decode(PushSumCodec(PushSum(schedule(size=2))).encode(before))
    assert (result.is_blank, result.cycle, result.step) == (blank, 9, 4)
    assert result.estimate is None if blank else result.numerator.tolist() == [model * UNIT, 0]


def test_another_or_missing_model_s_state_is_refused() -> None:
    with pytest.raises(ModelSizeMismatch):
        codec(3).decode(codec().encode(PairwiseState(np.array([1, 2]))))
    with pytest.raises(ValueError, match=r"model.*invalid"):
        codec().decode(b"")
