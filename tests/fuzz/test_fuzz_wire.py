"""Mangled messages of a peer: refused with a reason, or accepted as a share within its limits; never anything else.

SOTTOVOCE_FUZZ_RUNS lengthens the loop and SOTTOVOCE_FUZZ_SEED repeats one; a failure names its run.
"""

import os
import random
from pathlib import Path

import numpy as np
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.net.wire import (
    TASK_BYTES,
    Heads,
    SignedHead,
    append_heads,
    decode,
    decode_heads,
    encode,
    encode_heads,
    seal,
    unseal,
)
from sottovoce_operator.fleet import create_fleet, enrol

from tests.support.mangling import mangle
from tests.support.messages import as_push_sum_share

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_RUNS", "3000"))
SEED = int(os.environ.get("SOTTOVOCE_FUZZ_SEED", "1"))
ENVELOPE_REASONS = {"size", "malformed", "version", "fleet", "recipient", "sender", "signature"}
PAYLOAD_REASONS = {"malformed", "shape", "range"}


def test_mangled_messages(tmp_path: Path) -> None:
    fleet = create_fleet(tmp_path / "fleet", "fleet")
    sender, recipient = enrol(fleet, tmp_path / "one"), enrol(fleet, tmp_path / "two")
    payload_type, payload = encode(PushSumShare(np.arange(-4, 4), 2**40))

    def sealed(payload: bytes) -> bytes:
        return seal(
            sender,
            recipient=recipient.node_id,
            incarnation=1,
            sequence=1,
            payload_type=payload_type,
            payload=payload,
            task=bytes(TASK_BYTES),
        )

    def outcome(raw: bytes) -> str | PushSumShare:
        try:
            opened = unseal(raw, fleet="fleet", recipient=recipient.node_id)
            return as_push_sum_share(decode(opened.payload_type, opened.payload))
        except MessageRefused as refusal:
            return refusal.reason
        except Exception as error:
            error.add_note(f"from {raw.hex()}, SOTTOVOCE_FUZZ_SEED={SEED}")
            raise

    head = SignedHead(sender.public_key, 57, 56, bytes(range(32)), bytes(range(16))).sign(sender)
    whole, heads = sealed(payload), encode_heads(Heads(head, None))
    for run in range(RUNS):
        rng = random.Random(f"{SEED}/{run}")
        # By turns what an outsider can do, with ledger heads beside and without, and what a device of the fleet signs.
        by_outsider = run % 3 > 0
        raw = (
            mangle(rng, append_heads(whole, heads) if run % 3 == 1 else whole)
            if by_outsider
            else sealed(mangle(rng, payload))
        )
        got = outcome(raw)
        context = f"SOTTOVOCE_FUZZ_SEED={SEED}, run {run}: {got} from {raw.hex()}"
        if isinstance(got, str):
            assert got in (ENVELOPE_REASONS if by_outsider else PAYLOAD_REASONS), context
        else:
            assert not by_outsider or raw.startswith(whole), context
            assert 0 < got.weight <= MAX_WEIGHT, context
            assert max(abs(int(number)) for number in got.numerator) <= MAX_NUMERATOR, context


def test_mangled_ledger_heads(tmp_path: Path) -> None:
    """Decoded they are of their form, and verified they are what their device signed."""
    identity = enrol(create_fleet(tmp_path / "fleet", "fleet"), tmp_path / "one")
    head = SignedHead(identity.public_key, 57, 56, bytes(range(32)), bytes(range(16))).sign(identity)
    whole = encode_heads(Heads(head, head))
    for run in range(RUNS):
        raw = mangle(random.Random(f"{SEED}/heads/{run}"), whole)
        context = f"SOTTOVOCE_FUZZ_SEED={SEED}, run {run}: from {raw.hex()}"
        reason = None
        try:
            heads = decode_heads(raw)
            for found in (heads.head, heads.known_head):
                if found is not None:
                    found.verify("fleet")
                    assert found == head, context
        except MessageRefused as refusal:
            reason = refusal.reason
        except Exception as error:
            error.add_note(context)
            raise
        assert reason in {None, "size", "malformed", "head", "signature"}, context
