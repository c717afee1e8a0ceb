"""Roll call: a device reports its state, and collects other devices' states despite invalid or late answers."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sottovoce
from msgspec import json
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.tasks import ROLL_CALL, Condition, RollCall
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters

from tests.support.hosts import StubHost

DIGEST = bytes(range(32))
TASK = DIGEST.hex()
PeerAnswer = bytes | Exception | None


class Carrier:
    """Peers that give prescribed answers; None: never an answer."""

    def __init__(self, answers: dict[str, PeerAnswer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, bytes]] = []

    async def deliver(self, peer: Peer, raw: bytes, timeout: float) -> bytes:  # noqa: ASYNC109 - as a transport has it
        self.asked.append((peer.id, raw))
        result = self.answers[peer.id]
        if result is None:
            await asyncio.Event().wait()
        if isinstance(result, Exception):
            raise result
        assert result is not None
        return result


def part(
    answers: dict[str, PeerAnswer] | None = None, epoch: int = 0, failures: Sequence[int] = (), *, behind: bool = False
) -> RollCall:
    carrier: Any = Carrier(answers or {})
    tasks: Any = SimpleNamespace(
        fleet_tasks=SimpleNamespace(epoch=epoch, is_behind=behind), own_task=SimpleNamespace(digest=DIGEST)
    )
    messenger = Messenger(lambda node, kind, payload: kind.encode() + payload, carrier, 1.0, Counters(), Waits())
    host = StubHost(find=lambda node: Peer(node, "192.0.2.1:7400", node) if node in carrier.answers else None)
    links: Any = {str(number): SimpleNamespace(failures=count) for number, count in enumerate(failures)}
    host.links = links
    return RollCall(host, messenger, tasks)


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
def test_a_device_reports_its_health(failures: tuple[int, ...], *, behind: bool, health: str) -> None:
    roll_call = part(epoch=3, failures=failures, behind=behind)
    assert json.decode(roll_call.answer(), type=Condition) == Condition(sottovoce.__version__, 3, health, TASK)


async def test_silent_or_invalid_peers_are_not_listed_and_delay_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sottovoce.node.tasks._EACH_SECONDS", 0.05)
    well = json.encode(Condition("0.1.0", 2, "well", TASK))
    later = json.encode({"release": "9.9", "epoch": 2, "health": "drowsy", "mood": "blue", "task": TASK})
    answers: dict[str, PeerAnswer] = {
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
    roll_call = part(answers)
    result = await roll_call.collect_conditions([*answers, "nowhere"])
    assert result == {"well": Condition("0.1.0", 2, "well", TASK), "later": Condition("9.9", 2, "drowsy", TASK)}
    carrier: Any = roll_call._messenger.transport
    assert sorted(node for node, _ in carrier.asked) == sorted(answers)
    assert all(raw == ROLL_CALL.encode() for _, raw in carrier.asked)
    assert roll_call._messenger.waits.to_dict() == []


async def test_a_large_absent_fleet_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.node.tasks._TOTAL_SECONDS", 0.1)
    monkeypatch.setattr("sottovoce.node.tasks._EACH_SECONDS", 600.0)
    answers: dict[str, PeerAnswer] = dict.fromkeys(map(str, range(300)))
    roll_call = part(answers)
    assert await roll_call.collect_conditions(answers) == {}
    carrier: Any = roll_call._messenger.transport
    assert len(carrier.asked) == 64, "at most this many at once"


async def test_a_defect_is_not_mistaken_for_silence() -> None:
    with pytest.raises(ZeroDivisionError):
        await part({"a": ZeroDivisionError()}).collect_conditions(["a"])
