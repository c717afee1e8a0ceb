"""Codec for pairwise proposals and moves, and for a device's durable state.

States have the same format as those of push-sum, with weight 1, or 0 for a blank device. A device that mixed by
push-sum before therefore continues from its last model estimate.
"""

import math

import numpy as np

from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import Move, PairwiseState, Proposal
from sottovoce.algorithms.steps.mixing_state import check_numerator, decode_state, encode_state
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.packed import read_numbers, write_numbers
from sottovoce.net.wire.v1 import pairwise_pb2

_MAX_PARTS = 2**32 - 1


def to_bytes(message: Proposal | Move) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    if isinstance(message, Move):
        move = pairwise_pb2.Move()
        write_numbers(move, message.numerator)
        return move.SerializeToString(deterministic=True)
    reach = None if math.isinf(message.reach) else message.reach
    proposal = pairwise_pb2.Proposal(parts=message.parts, reach=reach)
    write_numbers(proposal, message.numerator)
    return proposal.SerializeToString(deterministic=True)


def check(message: Proposal | Move) -> None:
    """Check that a message has a valid shape and that its values are in range; see PayloadCodec.check."""
    check_numerator(message.numerator)
    if isinstance(message, Proposal) and not (2 <= message.parts <= _MAX_PARTS and message.reach > 0):
        raise MessageRefused("range", "a proposal would move a model more than halfway, or not move it at all")


class Proposals:
    """Codec for proposals."""

    to_bytes = staticmethod(to_bytes)
    check = staticmethod(check)

    @staticmethod
    def from_bytes(payload: bytes) -> Proposal:
        """Decode a proposal; see PayloadCodec.from_bytes."""
        proposal = pairwise_pb2.Proposal.FromString(payload)
        numerator = read_numbers(proposal)
        numerator.setflags(write=False)
        return Proposal(numerator, proposal.parts, proposal.reach if proposal.HasField("reach") else math.inf)


class Moves:
    """Codec for moves."""

    to_bytes = staticmethod(to_bytes)
    check = staticmethod(check)

    @staticmethod
    def from_bytes(payload: bytes) -> Move:
        """Decode a move; see PayloadCodec.from_bytes."""
        numerator = read_numbers(pairwise_pb2.Move.FromString(payload))
        numerator.setflags(write=False)
        return Move(numerator)


_WEIGHT_ONE = int(UNIT)
_MIN_WEIGHT = _WEIGHT_ONE >> 20  # below this weight there is no model, as in push-sum


class PairwiseCodec:
    """State codec for devices that average in pairs; implements StateCodec."""

    def __init__(self, learner: Pairwise) -> None:
        self._size = learner.schedule.size

    def encode(self, state: PairwiseState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return encode_state(state, 0 if state.is_blank else _WEIGHT_ONE)

    def decode(self, raw: bytes) -> PairwiseState:
        """Decode a state; see StateCodec.decode."""
        weight, saved = decode_state(raw, self._size)
        if weight not in (0, _WEIGHT_ONE):
            estimate = np.rint(saved["numerator"] / max(weight, _MIN_WEIGHT) * UNIT)
            saved["numerator"] = np.clip(estimate, -MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        return PairwiseState(is_blank=weight < _MIN_WEIGHT, **saved)
