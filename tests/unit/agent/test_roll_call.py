"""Roll call: a device reports its state and receives the others', whatever they answer, and however late."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import sottovoce
from msgspec import json
from sottovoce.agent.ledger_head_gossip import Messenger
from sottovoce.agent.roll_call import ROLL_CALL, Condition, RollCall
from sottovoce.agent.wait_status import Waits
from sottovoce.observe import Counters
from sottovoce.transport import DeliveryFailed, Peer

DIGEST = bytes(range(32))
TASK = DIGEST.hex()
Said = bytes | Exception | None


class Carrier:
    """Peers that say what the test has them say; None: nothing, ever."""

    def __init__(self, said: dict[str, Said]) -> None:
        self.said = said
        self.asked: list[tuple[str, bytes]] = []

    async def deliver(self, peer: Peer, raw: bytes, timeout: float) -> bytes:  # noqa: ASYNC109 - as a transport has it
        self.asked.append((peer.id, raw))
        found = self.said[peer.id]
        if found is None:
            await asyncio.Event().wait()
        if isinstance(found, Exception):
            raise found
        assert found is not None
        return found


def part(said: dict[str, Said] | None = None, epoch: int = 0, *, behind: bool = False) -> RollCall:
    carrier: Any = Carrier(said or {})
    tasks: Any = SimpleNamespace(
        fleet_tasks=SimpleNamespace(epoch=epoch, is_behind=behind), own_task=SimpleNamespace(digest=DIGEST)
    )
    messenger = Messenger(lambda node, kind, payload: kind.encode() + payload, carrier, 1.0, Counters(), Waits())
    made = RollCall(messenger, tasks)
    made.attach({}, lambda node: Peer(node, "192.0.2.1:7400", node) if node in carrier.said else None)
    return made


def links(*failures: int) -> Any:
    return {str(number): SimpleNamespace(failures=count) for number, count in enumerate(failures)}


@pytest.mark.parametrize(
    "failures, behind, health",
    [
        ((), False, "well"),
        ((0, 5), False, "well"),
        ((1, 5), False, "apart"),
        ((0,), True, "behind"),
        ((2,), True, "apart"),
    ],
)
def test_a_device_says_how_it_is(failures: tuple[int, ...], *, behind: bool, health: str) -> None:
    made = part(epoch=3, behind=behind)
    made.attach(links(*failures), lambda _: None)
    assert json.decode(made.answer(), type=Condition) == Condition(sottovoce.__version__, 3, health, TASK)


async def test_who_says_nothing_or_no_sense_is_not_seen_and_keeps_nobody_else_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sottovoce.agent.roll_call._EACH_SECONDS", 0.05)
    well = json.encode(Condition("0.1.0", 2, "well", TASK))
    later = json.encode({"release": "9.9", "epoch": 2, "health": "drowsy", "mood": "blue", "task": TASK})
    said: dict[str, Said] = {
        "well": well,
        "later": later,
        "silent": None,
        "refuses": DeliveryFailed("refused", "of an older release"),
        "rubbish": b"\xff\x00",
        "negative": json.encode({"release": "1", "epoch": -1, "health": "well", "task": TASK}),
        "taskless": json.encode({"release": "1", "epoch": 1, "health": "well"}),
        "deep": b"[" * 900,
        "long": b" " * 2000 + well,
        "wordy": json.encode(Condition("x" * 100, 0, "well", TASK)),
    }
    made = part(said)
    found = await made.collect_conditions([*said, "nowhere"])
    assert found == {"well": Condition("0.1.0", 2, "well", TASK), "later": Condition("9.9", 2, "drowsy", TASK)}
    carrier: Any = made._messenger.transport
    assert sorted(node for node, _ in carrier.asked) == sorted(said)
    assert all(raw == ROLL_CALL.encode() for _, raw in carrier.asked)
    assert made._messenger.waits.as_document() == []


async def test_a_large_fleet_that_is_gone_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.agent.roll_call._TOTAL_SECONDS", 0.1)
    monkeypatch.setattr("sottovoce.agent.roll_call._EACH_SECONDS", 600.0)
    said: dict[str, Said] = dict.fromkeys(map(str, range(300)))
    made = part(said)
    assert await made.collect_conditions(said) == {}
    carrier: Any = made._messenger.transport
    assert len(carrier.asked) == 64, "so many at once, and no more"


async def test_a_defect_is_not_taken_for_silence() -> None:
    with pytest.raises(ZeroDivisionError):
        await part({"a": ZeroDivisionError()}).collect_conditions(["a"])
