"""Counts of public events. None of them depends on a record."""

import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Counters of an agent.

    Attributes:
        messages: envelopes handed to a transport for the first time.
        retries: envelopes handed over again, with the same bytes.
        payload_bytes: payload bytes in messages, without envelopes.
        wire_bytes: envelopes sent, retries included, and receipts sent; before HTTP/2 and TLS.
        received: messages applied.
        received_at: time of the last message or duplicate on the monotonic clock; before any, the time of the start.
        duplicates: messages that had been applied before.
        refused: messages refused, by reason.
        failures: failed deliveries, by cause.
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
