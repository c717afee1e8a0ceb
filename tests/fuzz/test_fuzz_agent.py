"""Mangled messages of members on a running agent: refused, or answered; it goes on, and neither grows nor logs much.

SOTTOVOCE_FUZZ_RUNS lengthens the loop and SOTTOVOCE_FUZZ_SEED repeats one. The messages are signed envelopes of every
payload type, whose payload is mangled, random or a random protobuf; some are mangled again after they were signed.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from sottovoce.errors import MessageRefused
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.net.wire import LEDGER_HEAD, PEER_EXCHANGE, decode
from sottovoce.net.wire.revocation import REVOCATIONS
from sottovoce.node.gossip.fleet_tasks import FLEET_TASK
from sottovoce.node.gossip.result_gossip import RESULTS
from sottovoce.node.tasks import ROLL_CALL, TASK
from sottovoce_operator.fleet import Fleet, create_fleet, enrol

from tests.support.attacker import Attacker, share
from tests.support.devices import new_device
from tests.support.mangling import draw_protobuf, mangle
from tests.support.processes import running
from tests.support.waiting import until

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_RUNS", "1000"))
SEED = int(os.environ.get("SOTTOVOCE_FUZZ_SEED", "1"))
LEARNERS = sorted({kind for algorithm in ALGORITHMS.values() for kind in algorithm.payloads})
TYPES = [*LEARNERS, TASK, FLEET_TASK, ROLL_CALL, PEER_EXCHANGE, LEDGER_HEAD, RESULTS, REVOCATIONS, "", "unknown/1"]
REASONS = {None, "malformed", "shape", "range", "size", "simulated"}
REFUSED = {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED}
MEMBERS, GROWTH_MIB, LINES = 8, 16, 100


def payload(rng: random.Random) -> bytes:
    """Draw a payload: a random protobuf, a mangled share, or random bytes."""
    return rng.choice((draw_protobuf(rng), draw_protobuf(rng), mangle(rng, share()), rng.randbytes(rng.choice((0, 9)))))


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_payload_is_decoded_or_refused(kind: str) -> None:
    for run in range(RUNS):
        rng = random.Random(f"{SEED}/{kind}/{run}")
        raw = payload(rng)
        reason = None
        try:
            decode(kind, raw)
        except MessageRefused as refusal:
            reason = refusal.reason
        except Exception as error:
            error.add_note(f"SOTTOVOCE_FUZZ_SEED={SEED}, run {run}: {kind} {raw.hex()}")
            raise
        assert reason in REASONS, f"SOTTOVOCE_FUZZ_SEED={SEED}, run {run}: {kind} {raw.hex()}"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return create_fleet(tmp_path / "fleet", "fleet")


@pytest.mark.process
@pytest.mark.smoke
@pytest.mark.timeout(max(300, RUNS // 50))
def test_an_agent_survives_mangled_messages(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "agent")
    device.configure(
        learner={"period": 0.01, "steps": 1}, membership={"sampling": "newscast"}, agent={"bytes_per_day": 2**40}
    )
    members, task = [enrol(fleet, tmp_path / f"m{number}") for number in range(MEMBERS)], device.task
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] == 1, "its only step is complete")

        def send(number: int, first: int, last: int) -> set[grpc.StatusCode]:
            codes = set()
            with Attacker(device, members[number]) as attacker:
                for run in range(first, last):
                    rng = random.Random(f"{SEED}/{number}/{run}")
                    kind = rng.choice(TYPES)
                    raw = attacker.envelope(sequence=run + 1, payload_type=kind, payload=payload(rng), task=task)
                    try:
                        attacker.raw(mangle(rng, raw) if rng.random() < 0.3 else raw)
                    except grpc.RpcError as error:
                        codes.add(error.code())
            return codes

        def send_all(first: int, last: int) -> set[grpc.StatusCode]:
            with ThreadPoolExecutor(MEMBERS) as pool:
                sent = [pool.submit(send, number, first, last) for number in range(MEMBERS)]
                return set().union(*(task.result() for task in sent))

        each = RUNS // MEMBERS
        send_all(0, each // 4)
        before = agent.status()["resources"]["rss_mib"]
        assert send_all(each // 4, each) <= REFUSED
        status = agent.status()
        assert status["resources"]["rss_mib"] < before + GROWTH_MIB
        assert sum(status["refused"]["messages"].values()) > each
        assert agent.end() == 0
        assert "Traceback" not in agent.log()
        assert len(agent.log().splitlines()) <= LINES
