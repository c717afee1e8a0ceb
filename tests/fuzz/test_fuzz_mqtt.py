"""Mangled messages under any topic of a broker: refused with a reason, and never handed over or raised as an error.

SOTTOVOCE_FUZZ_RUNS lengthens the loop and SOTTOVOCE_FUZZ_SEED repeats one; a failure names its run.
"""

import os
import random
from pathlib import Path

import pytest
from sottovoce_operator.fleet import create_fleet, enrol

from tests.support.mailbox import Post, exchange, send_and_wait, use_mailboxes
from tests.support.mangling import mangle
from tests.support.waiting import let_others_run

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_RUNS", "3000"))
SEED = int(os.environ.get("SOTTOVOCE_FUZZ_SEED", "1"))
REASONS = {
    *("size", "malformed", "fleet", "sender", "certificate", "signature"),
    *("replayed", "forged", "stale", "stranger", "flood"),
}


async def test_mangled_frames_and_presences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_mailboxes(monkeypatch)
    fleet = create_fleet(tmp_path / "fleet", "fleet")
    here, there, third = [await Post(enrol(fleet, tmp_path / name)).start() for name in ("here", "there", "third")]
    request, answer = await exchange(there, here, b"a message")
    _, other = await exchange(here, third, b"a message")
    here.introduce(there)
    presence = f"sottovoce/v1/fleet/peer/{there.id}"
    words = [
        there.transport._presence.presence_announcement(),
        there.transport._presence.departure_announcement(),
        here.transport._presence.departure_announcement(),
    ]
    delivery, fresh = await send_and_wait(there, here, b"another")
    raws = [request[1], answer[1], other[1], fresh[1], *words]
    topics = [
        presence,
        f"sottovoce/v1/fleet/peer/{here.id}",
        *(f"sottovoce/v1/fleet/in/{here.id}/{one.id}" for one in (there, third, here)),
    ]
    honest = list(here.received)
    for run in range(RUNS):
        rng = random.Random(f"{SEED}/{run}")
        topic, raw = rng.choice(topics), mangle(rng, rng.choice(raws))
        if raw in raws:
            continue
        here.take_refusals()
        try:
            here.receive_frame(topic, raw)
        except Exception as error:
            error.add_note(f"SOTTOVOCE_FUZZ_SEED={SEED}, run {run}: {topic} {raw.hex()}")
            raise
        assert set(here.take_refusals()) <= REASONS
    await let_others_run()
    assert here.received == honest
    here.receive_frame(*fresh)
    (answered,) = await here.take_frames(1)
    there.receive_frame(*answered)
    assert await delivery == b"answer"
    assert here.received == [*honest, (there.id, b"another")]
