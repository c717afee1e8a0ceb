"""Strangers without a certificate and with many sockets: a device with 1,024 descriptors continues, and logs little.

How well it continues is measured for a minute, on a machine that does nothing else: `make soak`.
"""

import resource
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask
from sottovoce_operator.fleet import Fleet

from tests.support import member_floods
from tests.support.cgroups import memory_group
from tests.support.devices import free_port, new_device
from tests.support.floods import HALF_OPEN, KINDS, flood
from tests.support.member_floods import member_flood
from tests.support.processes import AgentProcess
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

PERIOD, SECONDS, LONG = 0.4, 5.0, 60.0
LIMITED = ("prlimit", "--nofile=1024:1024")
MEMORY_MIB = 192  # the unit's MemoryMax
PEAK_MIB, MEMBERS = 100, 8
PACE, STATUS_SECONDS = 0.8, 1.0
BUSY_PACE, BUSY_STATUS_SECONDS = 0.2, 10.0  # other tests run at the same time


@pytest.fixture(scope="module")
def pair(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    directory = tmp_path_factory.mktemp("flooded")
    one, other = (new_device(fleet, directory / name) for name in ("one", "other"))
    for device, peer in ((one, other), (other, one)):
        device.configure(
            [peer.entry()],
            agent={"readers_socket": str(directory / f"{device.state.name}-readers.sock")},
            learner={"period": PERIOD, "steps": 10_000},
            observe={"metrics": f"127.0.0.1:{free_port()}"},
        )
    with ExitStack() as stack:
        yield [stack.enter_context(AgentProcess(device, LIMITED)).ready() for device in (one, other)]


@pytest.mark.parametrize(
    "seconds, pace, answers_in",
    [
        pytest.param(SECONDS, BUSY_PACE, BUSY_STATUS_SECONDS, id="short"),
        pytest.param(LONG, PACE, STATUS_SECONDS, id="long", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(
    "kind, port",
    [*((kind, "peers") for kind in KINDS), ("idle", "metrics"), ("garbage", "metrics"), ("silent", "readers")],
)
def test_cycles_continue_and_the_status_answers(
    pair: list[AgentProcess], kind: str, port: str, seconds: float, pace: float, answers_in: float
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < HALF_OPEN + 1000:
        pytest.skip(f"needs {HALF_OPEN + 1000} descriptors for the strangers: raise the hard limit")
    target, peer = pair
    until(lambda: target.status()["traffic"]["received"] > 0, "they have exchanged messages")
    quiet = _paced(target, peer, SECONDS)
    lines = len(target.log().splitlines())
    address = {"peers": target.device.address, "metrics": _metrics(target), "readers": str(_readers(target))}[port]
    with flood(kind, address, seconds):
        time.sleep(1.0)
        cycles, received, slowest = _paced(target, peer, seconds - 2.0)
    one = 1 / (seconds - 2.0)  # the count may be off by one, depending on the interval's edges
    assert cycles + one >= pace * quiet[0], "its own cycles"
    assert received + one >= pace * quiet[1], "its peer's messages"
    assert slowest < answers_in, "its status answers"
    status = target.status()
    assert status["resources"]["rss_mib"] < MEMORY_MIB
    assert target.process.poll() is None
    assert len(target.log().splitlines()) - lines < 100
    print(
        f"{kind}, {port}: {cycles:.2f} cycles a second (quiet {quiet[0]:.2f}), {received:.2f} received "
        f"({quiet[1]:.2f}), status {slowest:.2f} s, {status['resources']['rss_mib']:.0f} MiB"
    )


def test_an_honest_peer_gets_through(pair: list[AgentProcess]) -> None:
    """A peer without an open connection restarts during the flood."""
    target, peer = pair
    with flood("idle", target.device.address, SECONDS):
        time.sleep(1.0)
        assert peer.end() == 0
        before = target.status()["traffic"]["received"]
        with AgentProcess(peer.device, LIMITED) as restarted:
            restarted.ready()
            until(lambda: target.status()["traffic"]["received"] > before + 1, "its shares arrive")


@pytest.mark.parametrize("kind", ["few", "idle"])
def test_silent_connections_do_not_block_monitoring(pair: list[AgentProcess], kind: str) -> None:
    """Each of many requests during the flood is answered, at the latest when it is repeated, as every monitor does.

    On a busy machine, a client may be displaced before it has sent its request.
    """
    target, _ = pair
    until(lambda: _scraped(target, "/readyz"), "it is ready")
    with flood(kind, _metrics(target), SECONDS):
        time.sleep(1.0)
        answers = [_scraped(target, page) or _scraped(target, page) for page in ("/metrics", "/readyz") * 24]
    assert len(answers) == 48
    assert all(answers), f"{sum(map(bool, answers))} of 48 were answered"


def test_silent_connections_do_not_block_readers(pair: list[AgentProcess]) -> None:
    target, _ = pair
    readers, took = _readers(target), []
    with flood("silent", str(readers), SECONDS):
        time.sleep(1.0)
        for _ in range(48):
            began = time.monotonic()
            try:
                status = ask(target.device.state, "status", TIMEOUT, readers=readers)
            except NetworkError:  # displaced before it has sent its request, as may happen on a busy machine
                status = ask(target.device.state, "status", TIMEOUT, readers=readers)
            assert status["id"] == target.device.id
            took.append(time.monotonic() - began)
    assert max(took) < BUSY_STATUS_SECONDS
    assert len(target.lines("connections-crowded", str(readers))) == 1


@pytest.mark.parametrize(
    "kind, seconds, pace",
    [
        pytest.param("valid", SECONDS, BUSY_PACE, id="short"),
        *(pytest.param(kind, LONG, PACE, id=kind, marks=pytest.mark.soak) for kind in member_floods.KINDS),
    ],
)
def test_members_do_not_fill_the_memory_of_the_unit(
    fleet: Fleet, tmp_path: Path, kind: str, seconds: float, pace: float
) -> None:
    """Eight members with eight calls each flood an agent in the cgroup of its unit."""
    one, other = (new_device(fleet, tmp_path / name, epsilon=50.0) for name in ("one", "other"))
    members = [new_device(fleet, tmp_path / f"m{number}") for number in range(MEMBERS)]
    for device, peer in ((one, other), (other, one)):
        learner = {"period": PERIOD, "steps": 10_000}
        device.configure([peer.entry()], learner=learner, privacy={"epsilon": 50.0})
    with memory_group(MEMORY_MIB) as group, AgentProcess(one, group.words) as target, AgentProcess(other) as source:
        for agent in (target, source):
            agent.ready()
        until(lambda: target.status()["traffic"]["received"] > 0, "they have exchanged messages")
        quiet = _paced(target, source, SECONDS)
        with member_flood(kind, one, members, seconds):
            time.sleep(1.0)
            cycles, received, slowest = _paced(target, source, seconds - 2.0)
        mib, lines = group.peak_mib(), len(target.log().splitlines())
        assert target.end() == 0
    print(f"{kind}: {cycles:.2f} cycles a second (quiet {quiet[0]:.2f}), {received:.2f} received, {mib:.0f} MiB")
    one_more = 1 / (seconds - 2.0)
    assert received + one_more >= pace * quiet[1], "its peer's messages"
    assert mib <= PEAK_MIB
    assert lines < 100
    assert slowest < BUSY_STATUS_SECONDS


def _scraped(agent: AgentProcess, page: str) -> bytes:
    """Return a monitoring page; empty if there is no valid answer."""
    try:
        with urllib.request.urlopen(f"http://{_metrics(agent)}{page}", timeout=TIMEOUT) as answer:
            result: bytes = answer.read()
            return result
    except OSError:
        return b""


def _readers(agent: AgentProcess) -> Path:
    """Return the path of the agent's socket for readers."""
    return Path(tomllib.loads(agent.device.config.read_text())["agent"]["readers_socket"])


def _metrics(agent: AgentProcess) -> str:
    """Return the address of the agent's metrics."""
    return str(tomllib.loads(agent.device.config.read_text())["observe"]["metrics"])


def _paced(target: AgentProcess, peer: AgentProcess, seconds: float) -> tuple[float, float, float]:
    """Return cycles and messages received per second, and the slowest status request."""
    first, begin, slowest = target.status(), time.monotonic(), 0.0
    while time.monotonic() < begin + seconds:
        start = time.monotonic()
        target.status()
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.25)
    last, took = target.status(), time.monotonic() - begin
    assert peer.process.poll() is None
    return (
        (last["cycle"] - first["cycle"]) / took,
        (last["traffic"]["received"] - first["traffic"]["received"]) / took,
        slowest,
    )
