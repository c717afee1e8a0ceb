"""Wire format for pairwise proposals and moves."""

import math

from sottovoce.algorithms.pairwise.public.messages import Move, Proposal
from sottovoce.algorithms.steps.numerator import check_numerator
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import read_numbers, write_numbers
from sottovoce.wire.v1 import pairwise_pb2

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
