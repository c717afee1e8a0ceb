"""Codec for the messages and the durable state of shared-model learners."""

import numpy as np
from sottovoce.net.wire.v1 import shared_model_pb2
from sottovoce.plugin import MessageRefused, ModelSizeMismatch, check_model, from_float32, to_float32

from sottovoce_papers.jin_2023.public.machine import SharedModel
from sottovoce_papers.jin_2023.public.messages import (
    MAX_STEP,
    Head,
    HeadAnnouncement,
    ModelRequest,
    SharedModelMessage,
)
from sottovoce_papers.jin_2023.public.state import Floats, SharedModelState, StoredModel

_LONGEST_NAME = 64

AnyMessage = HeadAnnouncement | ModelRequest | SharedModelMessage


def to_bytes(message: AnyMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    encoded = shared_model_pb2.SharedModelMessage()
    match message:
        case HeadAnnouncement(head):
            encoded.announced.CopyFrom(to_wire(head))
        case ModelRequest():
            encoded.wanted.SetInParent()
        case SharedModelMessage(head, parameters):
            encoded.model.CopyFrom(shared_model_pb2.SharedModel(head=to_wire(head), parameters=to_float32(parameters)))
    return encoded.SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> AnyMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    message = shared_model_pb2.SharedModelMessage.FromString(payload)
    match message.WhichOneof("said"):
        case "announced":
            return HeadAnnouncement(from_wire(message.announced))
        case "wanted":
            return ModelRequest()
        case "model":
            return SharedModelMessage(from_wire(message.model.head), from_float32(message.model.parameters))
    raise MessageRefused("shape", "the message has no content that this version supports")


def check(message: AnyMessage) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    if isinstance(message, ModelRequest):
        return
    if not 0 <= message.head.step <= MAX_STEP or len(message.head.writer) > _LONGEST_NAME:
        raise MessageRefused("range", "the step or the writer in the head is out of range")
    if isinstance(message, SharedModelMessage):
        check_model(message.parameters, message.head.step)


def to_wire(head: Head) -> shared_model_pb2.SharedModelHead:
    """Convert a head to protobuf."""
    return shared_model_pb2.SharedModelHead(step=head.step, writer=head.writer)


def from_wire(head: shared_model_pb2.SharedModelHead) -> Head:
    """Convert a head from protobuf."""
    return Head(head.step, head.writer)


class SharedModelCodec:
    """State codec for shared-model learners; implements StateCodec."""

    def __init__(self, learner: SharedModel) -> None:
        self._size = learner.initial_state().own.size

    def encode(self, state: SharedModelState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        model = shared_model_pb2.SharedModel(
            head=to_wire(state.model.head), parameters=to_float32(state.model.parameters.astype(np.float32))
        )
        return shared_model_pb2.SharedModelState(
            model=model,
            own=to_float32(state.own.astype(np.float32)),
            heard=to_wire(state.newest_head),
            told=to_wire(state.announced_head),
            cycle=state.cycle,
            turn=state.turn,
            exhausted=state.exhausted,
            forks=state.forks,
            lost=state.lost_updates,
            written=state.heads_by_writer,
        ).SerializeToString(deterministic=True)  # a map has no order of its own

    def decode(self, raw: bytes) -> SharedModelState:
        """Decode a state; see StateCodec.decode."""
        saved = shared_model_pb2.SharedModelState.FromString(raw)
        return SharedModelState(
            model=StoredModel(from_wire(saved.model.head), self._decode_model(saved.model.parameters)),
            own=self._decode_model(saved.own),
            newest_head=from_wire(saved.heard),
            announced_head=from_wire(saved.told),
            cycle=saved.cycle,
            turn=saved.turn,
            exhausted=saved.exhausted,
            forks=saved.forks,
            lost_updates=saved.lost,
            heads_by_writer=dict(saved.written),
        )

    def _decode_model(self, raw: bytes) -> Floats:
        parameters = from_float32(raw).astype(np.float64)
        if parameters.size != self._size:
            raise ModelSizeMismatch(parameters.size, self._size)
        if not np.isfinite(parameters).all():
            raise ValueError("the saved model contains a NaN or an infinity")
        return parameters
