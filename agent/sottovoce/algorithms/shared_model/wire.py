"""Wire format for messages between devices that share one model."""

from sottovoce.algorithms.shared_model.public.messages import (
    MAX_STEP,
    Head,
    HeadAnnounced,
    ModelWanted,
    SharedModelMessage,
)
from sottovoce.errors import MessageRefused
from sottovoce.wire.arrays import check_model, from_float32, to_float32
from sottovoce.wire.v1 import shared_model_pb2

_LONGEST_NAME = 64

AnyMessage = HeadAnnounced | ModelWanted | SharedModelMessage


def to_bytes(message: AnyMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    encoded = shared_model_pb2.SharedModelMessage()
    match message:
        case HeadAnnounced(head):
            encoded.announced.CopyFrom(to_wire(head))
        case ModelWanted():
            encoded.wanted.SetInParent()
        case SharedModelMessage(head, parameters):
            encoded.model.CopyFrom(shared_model_pb2.SharedModel(head=to_wire(head), parameters=to_float32(parameters)))
    return encoded.SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> AnyMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    message = shared_model_pb2.SharedModelMessage.FromString(payload)
    match message.WhichOneof("said"):
        case "announced":
            return HeadAnnounced(from_wire(message.announced))
        case "wanted":
            return ModelWanted()
        case "model":
            return SharedModelMessage(from_wire(message.model.head), from_float32(message.model.parameters))
    raise MessageRefused("shape", "the message has no content that this version supports")


def check(message: AnyMessage) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    if isinstance(message, ModelWanted):
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
