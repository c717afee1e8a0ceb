"""An attacker who holds one of the fleet's device certificates, runs no agent and sends arbitrary messages."""

import random
from dataclasses import dataclass
from typing import Any, Self

import grpc
import numpy as np
from numpy.typing import NDArray
from sottovoce.fleet import Identity
from sottovoce.net.transports.grpc import METHOD
from sottovoce.net.wire import decode_receipt, seal
from sottovoce.net.wire.v1.envelope_pb2 import PushSumShare

from tests.support.devices import Device, kernel
from tests.support.waiting import TIMEOUT

WEIGHT_ONE = 2**40


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a call: whether the message was a duplicate, or why the call failed."""

    duplicate: bool | None
    code: grpc.StatusCode | None = None
    details: str = ""


class Attacker:
    """Attacker that calls one agent over gRPC.

    Args:
        target: the device whose agent to call.
        identity: identity whose TLS key and certificate to present; None to present neither.
        credentials: credentials to use in place of those of `identity`.
    """

    def __init__(
        self, target: Device, identity: Identity | None, credentials: grpc.ChannelCredentials | None = None
    ) -> None:
        self.target = target
        self.identity = identity
        if credentials is None:
            roots = target.identity.ca_pem
            mine = () if identity is None else (identity.tls_key_pem, identity.tls_cert_pem)
            credentials = grpc.ssl_channel_credentials(roots, *mine)
        options = [
            ("grpc.ssl_target_name_override", target.identity.dns_name),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = grpc.secure_channel(target.address, credentials, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def envelope(
        self,
        *,
        sequence: int,
        incarnation: int = 1,
        recipient: str | None = None,
        payload_type: str = "push-sum-share/1",
        payload: bytes | None = None,
        task: bytes | None = None,
    ) -> bytes:
        """Return an envelope signed by this attacker; by default a share that the target would accept."""
        assert self.identity is not None
        return seal(
            self.identity,
            recipient=recipient or self.target.id,
            incarnation=incarnation,
            sequence=sequence,
            payload_type=payload_type,
            payload=share() if payload is None else payload,
            task=self.target.task if task is None else task,
        )

    def raw(self, envelope: bytes) -> bytes:
        """Call the target with an envelope that it accepts, and return its answer."""
        answer: bytes = self._channel.unary_unary(METHOD)(envelope, timeout=TIMEOUT)
        return answer

    def deliver(self, raw: bytes, method: str = METHOD) -> Outcome:
        """Call the target with these bytes."""
        return call_once(self._channel, raw, method)


def call_once(channel: grpc.Channel, raw: bytes, method: str = METHOD) -> Outcome:
    """Make one call over any channel."""
    try:
        receipt = decode_receipt(channel.unary_unary(method)(raw, timeout=TIMEOUT))
        return Outcome(receipt.duplicate, details=receipt.refused)
    except grpc.RpcError as error:
        return Outcome(None, error.code(), error.details() or "")


def share(numerator: NDArray[Any] | None = None, weight: int = WEIGHT_ONE // 2) -> bytes:
    """Return the payload of a push-sum share; by default a valid one."""
    if numerator is None:
        numerator = np.full(kernel().size, WEIGHT_ONE // 8, dtype=np.int64)
    return PushSumShare(numerator=numerator.astype("<i8").tobytes(), weight=weight).SerializeToString()


def flip_bits(raw: bytes, *, sample: int, seed: int) -> list[bytes]:
    """Return copies of `raw`, each with one bit altered, for a sample of its bits."""
    bits = random.Random(seed).sample(range(8 * len(raw)), min(sample, 8 * len(raw)))
    return [raw[: bit // 8] + bytes([raw[bit // 8] ^ 1 << bit % 8]) + raw[bit // 8 + 1 :] for bit in sorted(bits)]
