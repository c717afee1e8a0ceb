"""Counters of public events, none of which depends on a record."""

import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Counters of one agent's messages, bytes, refusals and failed deliveries.

    Attributes:
        messages: number of envelopes passed to a transport for the first time.
        retries: number of envelopes passed to a transport again with the same bytes.
        payload_bytes: bytes of payload in the messages, without envelopes.
        wire_bytes: bytes of envelopes sent, including retries, and of receipts sent, before HTTP/2 and TLS.
        received: number of messages received and applied.
        received_at: monotonic time of the last message or duplicate; before the first one, the start time.
        duplicates: number of received messages that had already been applied.
        refused: number of refused messages, by reason.
        failures: number of failed deliveries, by cause.
    """

    messages: int = 0
    retries: int = 0
    payload_bytes: int = 0
    wire_bytes: int = 0
    received: int = 0
    received_at: float = field(default_factory=time.monotonic)
    duplicates: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
