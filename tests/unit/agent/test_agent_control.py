"""The local socket: one question, one answer, for the owner alone, whatever is sent to it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.agent.control import ControlServer, ask, parameters
from sottovoce.agent.waits import Waits
from sottovoce.errors import NetworkError

from tests.support.waiting import PATIENCE


class Agent:
    """Implements sottovoce.agent.control.Controlled."""

    def __init__(self) -> None:
        self.model: NDArray[np.float64] | None = None
        self.cycle = 3
        self.stopped = False

    def status(self) -> dict[str, Any]:
        return {"id": "abc", "ε": 1.5}

    def stop(self) -> None:
        self.stopped = True

    async def leave(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        self.stopped = True
        return {"stopping": True, "handed_over": False, "left": "something"}


@pytest.fixture
def agent() -> Agent:
    return Agent()


@asynccontextmanager
async def serving(state: Path, agent: Agent) -> AsyncIterator[None]:
    server = ControlServer(state / "agent.sock", agent)
    await server.start()
    try:
        yield
    finally:
        await server.stop()


async def asked(state: Path, question: str) -> dict[str, Any]:
    return await asyncio.to_thread(ask, state, question, PATIENCE)


async def test_status_and_stop(tmp_path: Path, agent: Agent) -> None:
    async with serving(tmp_path, agent):
        assert await asked(tmp_path, "status") == {"id": "abc", "ε": 1.5}
        assert await asked(tmp_path, "stop") == {"stopping": True}
    assert agent.stopped


async def test_whoever_asks_it_to_leave_is_answered_once_it_has(tmp_path: Path, agent: Agent) -> None:
    async with serving(tmp_path, agent):
        assert await asked(tmp_path, "leave") == {"stopping": True, "handed_over": False, "left": "something"}
    assert agent.stopped


async def test_a_model_arrives_to_the_last_bit(tmp_path: Path, agent: Agent) -> None:
    async with serving(tmp_path, agent):
        assert parameters(await asked(tmp_path, "model")) is None
        agent.model = np.array([0.1, -(2.0**-1074), 1e308])
        answer = await asked(tmp_path, "model")
    found = parameters(answer)
    assert found is not None
    assert found.tolist() == agent.model.tolist()
    assert answer["cycle"] == 3


@pytest.mark.parametrize("question", ["", "STATUS", "status now", "\0", "x" * 4000])
async def test_any_other_question_is_answered_too(tmp_path: Path, agent: Agent, question: str) -> None:
    async with serving(tmp_path, agent):
        assert await asked(tmp_path, question) == {"error": "ask status, model, stop or leave"}
    assert not agent.stopped


@pytest.mark.parametrize("sent", [b"", b"sta", b"x" * 100_000, b"\xff\xfe\n"])
async def test_whoever_sends_nonsense_or_leaves_disturbs_nobody(tmp_path: Path, agent: Agent, sent: bytes) -> None:
    async with serving(tmp_path, agent):

        def rudely() -> None:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(tmp_path / "agent.sock"))
                connection.sendall(sent)

        try:
            await asyncio.to_thread(rudely)
        except OSError:
            assert len(sent) > 4096, "only who sends without end is cut off"
        assert (await asked(tmp_path, "status"))["id"] == "abc"


async def test_only_the_owner_may_open_it_and_it_is_gone_afterwards(tmp_path: Path, agent: Agent) -> None:
    path = tmp_path / "agent.sock"
    path.write_text("left by a crash")
    async with serving(tmp_path, agent):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize("left", [None, "a file"])
def test_nobody_there(tmp_path: Path, left: str | None) -> None:
    if left is not None:
        (tmp_path / "agent.sock").write_text(left)
    with pytest.raises(NetworkError, match="no agent answers there; start it with"):
        ask(tmp_path, "status")


def test_an_answer_that_is_not_json_or_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "agent.sock"))
        listening.listen()
        with pytest.raises(NetworkError):
            ask(tmp_path, "status", timeout=0.05)


def test_waits_are_told_by_name_with_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    waits = Waits()
    waits.begin("vault", "the vault to answer", 600.0, repeats=True)
    waits.begin("peer", "a peer", 2.0)
    now = 101.5
    assert waits.document() == [
        {"name": "peer", "reason": "a peer", "since_s": 1.5, "left_s": 0.5, "repeats": False},
        {"name": "vault", "reason": "the vault to answer", "since_s": 1.5, "left_s": 598.5, "repeats": True},
    ]
    waits.begin("peer", "again", 1.0)
    waits.end("vault")
    waits.end("nobody")
    assert json.loads(json.dumps(waits.document()))[0]["reason"] == "again"
