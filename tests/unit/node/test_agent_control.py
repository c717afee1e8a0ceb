"""Control socket: one answer per request, accessible only to the owner, and robust against invalid requests."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.config import AgentConfig
from sottovoce.config.loading import config_from_tables
from sottovoce.errors import NetworkError
from sottovoce.kernels.softmax import Softmax
from sottovoce.node.control import MAX_CONTROL_REQUEST, ControlServer, ask, decode_parameters
from sottovoce.node.waits import Waits

from tests.support.waiting import TIMEOUT, let_others_run


class Agent:
    """Implements sottovoce.node.control.ControlTarget."""

    def __init__(self) -> None:
        self.config = make_config()
        self.model: NDArray[np.float64] | None = None
        self.cycle = 3
        self.stopped = False
        self.retries = 0

    def status(self) -> dict[str, Any]:
        return {"id": "abc", "ε": 1.5, "privacy": {"epsilon": 2.0}}

    def stop(self) -> None:
        self.stopped = True

    async def fleet_report(self) -> dict[str, Any]:
        return {"devices": [{"id": "abc"}]}

    def retry_fleet_tasks(self) -> None:
        self.retries += 1

    async def list_results(self) -> list[str]:
        return ["the first", "the second"]

    async def leave(self) -> dict[str, Any]:
        await let_others_run()
        self.stopped = True
        return {"stopping": True, "handed_over": False, "left": "something"}


def make_config(**data: Any) -> AgentConfig:
    """Return a configuration for a model with two features and three classes."""
    public = {"source": "npz:absent.npz", "features": 2, "classes": 3, "expected_records": 9, "bounds": [0, 1], **data}
    return config_from_tables({"agent": {"state": "state"}, "data": {"transform": "none", **public}}, "test")


@pytest.fixture
def agent() -> Agent:
    return Agent()


@asynccontextmanager
async def serve_agent(state: Path, agent: Agent) -> AsyncIterator[None]:
    server = ControlServer(state / "agent.sock", agent)
    await server.start()
    try:
        yield
    finally:
        await server.stop()


def _files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def ask_agent(state: Path, question: str) -> dict[str, Any]:
    return await asyncio.to_thread(ask, state, question, TIMEOUT)


async def test_status_and_stop(tmp_path: Path, agent: Agent) -> None:
    async with serve_agent(tmp_path, agent):
        assert (await ask_agent(tmp_path, "status"))["ε"] == 1.5
        assert await ask_agent(tmp_path, "results") == {"results": ["the first", "the second"]}
        assert await ask_agent(tmp_path, "fleet") == await agent.fleet_report()
        assert await ask_agent(tmp_path, "look") == {"looking": True}
        assert await ask_agent(tmp_path, "stop") == {"stopping": True}
    assert agent.retries == 1
    assert agent.stopped


async def test_readers_see_public_values_and_can_change_nothing(tmp_path: Path, agent: Agent) -> None:
    readers = tmp_path / "readers.sock"
    server = ControlServer(tmp_path / "agent.sock", agent, readers)
    await server.start()

    async def read(question: str) -> dict[str, Any]:
        return await asyncio.to_thread(ask, tmp_path, question, TIMEOUT, waiting=True, readers=readers)

    assert (tmp_path / "agent.sock").stat().st_mode & 0o777 == 0o600
    assert readers.stat().st_mode & 0o777 == 0o660
    assert await read("status") == agent.status()
    assert await read("model") == {"cycle": 3, "parameters": None}
    for question in ("stop", "leave", "describe", "results", '{"records": []}'):
        assert await read(question) == {"error": "unknown request; the supported requests are status and model"}
    assert "1024 bytes" in (await read("x" * (MAX_CONTROL_REQUEST + 1)))["error"]
    assert not agent.stopped
    fault = {"kind": "data", "reason": "records.npz: row 17 is no number", "tries_again_s": 1.0, "needs_a_person": True}
    agent.status = lambda: {"state": "needs-a-person", "fault": fault}  # type: ignore[method-assign]
    reported = await read("status")
    assert reported["fault"] == {**fault, "reason": "the device's log and `sottovoce agent status` show the reason"}
    assert (await asyncio.to_thread(ask, tmp_path, "status", TIMEOUT, waiting=True))["fault"] == fault
    await server.stop()
    assert _files(tmp_path) == []


async def test_a_request_to_leave_is_answered_once_the_agent_has_left(tmp_path: Path, agent: Agent) -> None:
    async with serve_agent(tmp_path, agent):
        assert await ask_agent(tmp_path, "leave") == {"stopping": True, "handed_over": False, "left": "something"}
    assert agent.stopped


async def test_a_model_arrives_to_the_last_bit(tmp_path: Path, agent: Agent) -> None:
    async with serve_agent(tmp_path, agent):
        assert decode_parameters(await ask_agent(tmp_path, "model")) is None
        agent.model = np.array([0.1, -(2.0**-1074), 1e308])
        answer = await ask_agent(tmp_path, "model")
    result = decode_parameters(answer)
    assert result is not None
    assert result.tolist() == agent.model.tolist()
    assert answer["cycle"] == 3


@pytest.mark.parametrize("question", ["", "STATUS", "status now", "\0", "x" * 4000])
async def test_unknown_queries_are_also_answered(tmp_path: Path, agent: Agent, question: str) -> None:
    async with serve_agent(tmp_path, agent):
        assert await ask_agent(tmp_path, question) == {
            "error": "unknown request; the supported requests are status, fleet, model, results, describe, predict, "
            "look, stop and leave"
        }
    assert not agent.stopped


@pytest.mark.parametrize("sent", [b"", b"sta", b"x" * 100_000, b"\xff\xfe\n"])
async def test_invalid_or_aborted_requests_affect_no_other_client(tmp_path: Path, agent: Agent, sent: bytes) -> None:
    async with serve_agent(tmp_path, agent):

        def rudely() -> None:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(tmp_path / "agent.sock"))
                connection.sendall(sent)

        try:
            await asyncio.to_thread(rudely)
        except OSError:
            assert len(sent) > 4096, "only a client that sends a lot may be disconnected"
        assert (await ask_agent(tmp_path, "status"))["id"] == "abc"


async def test_the_model_is_described(tmp_path: Path, agent: Agent) -> None:
    async with serve_agent(tmp_path, agent):
        answer = await ask_agent(tmp_path, "describe")
    assert (answer["learner"], answer["model"], answer["classes"]) == ("clipd2p", "softmax", 3)
    assert (answer["features"], answer["columns"], answer["bounds"]) == (2, 2, [[0.0], [1.0]])
    assert answer["privacy"] == {"epsilon": 2.0}


async def test_predictions_come_from_the_public_model(tmp_path: Path, agent: Agent) -> None:
    rows = np.random.default_rng(0).uniform(-1, 2, (50, 2))
    agent.model = np.random.default_rng(1).standard_normal(6)
    labels = {
        kind: Softmax(2, 3).predict(agent.model[np.newaxis], seen)[0].tolist()
        for kind, seen in (("measured", np.clip(rows, 0, 1)), ("transformed", rows))
    }
    async with serve_agent(tmp_path, agent):
        answer = await ask_agent(tmp_path, json.dumps({"predict": rows.tolist()}))
        assert answer == {"cycle": 3, "labels": labels["measured"]}
        answer = await ask_agent(tmp_path, json.dumps({"predict": rows.tolist(), "transformed": True}))
        assert answer == {"cycle": 3, "labels": labels["transformed"]}
    assert labels["measured"] != labels["transformed"]


BAD_QUESTIONS = {
    "no list": ('{"predict": 3}', "Expected `array`"),
    "no question": ("{}", "missing required field `predict`"),
    "more than is asked": ('{"predict": [[1, 2]], "because": 1}', "because"),
    "half a document": ('{"predict": [[1, 2]', "send {"),
    "words": ('{"predict": [["1", "2"]]}', "Expected `float`"),
    "nothing": ('{"predict": []}', "0 records"),
    "too many": (json.dumps({"predict": [[0, 0]] * 1025}), "1025 records"),
    "another number of features": ('{"predict": [[1, 2, 3]]}', "3 features"),
    "rows of different lengths": ('{"predict": [[1, 2], [1]]}', "differ"),
    "no features": ('{"predict": [[], []]}', "0 features"),
    "infinity": ('{"predict": [[1, 1e999]]}', "a finite number|out of range"),
    "a name that is no number": ('{"predict": [[1, NaN]]}', "send {"),
    "too long": (json.dumps({"predict": [[0.0] * 2] * (MAX_CONTROL_REQUEST // 8)}), "exceeds 1048576 bytes"),
    "deep": ('{"predict": ' + "[" * 5000 + "]" * 5000 + "}", "send {"),
}


@pytest.mark.parametrize("name", BAD_QUESTIONS)
async def test_an_invalid_query_gets_one_error_and_changes_nothing(tmp_path: Path, agent: Agent, name: str) -> None:
    question, words = BAD_QUESTIONS[name]
    agent.model = np.arange(6.0)
    async with serve_agent(tmp_path, agent):
        answer = await ask_agent(tmp_path, question)
        assert set(answer) == {"error"}
        assert re.search(re.escape(words) if "|" not in words else words, answer["error"])
        assert (await ask_agent(tmp_path, '{"predict": [[1, 2]]}'))["labels"] == [2]
    assert not agent.stopped


async def test_queries_before_the_first_model_and_after_the_last(tmp_path: Path, agent: Agent) -> None:
    async with serve_agent(tmp_path, agent):
        assert "no model yet" in (await ask_agent(tmp_path, '{"predict": [[1, 2]]}'))["error"]
        agent.model = np.full(6, np.nan)
        assert "has diverged" in (await ask_agent(tmp_path, '{"predict": [[1, 2]]}'))["error"]


async def test_an_excessive_request_is_refused_and_the_agent_continues(
    tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    monkeypatch.setattr("sottovoce.node.control._PREDICTION_SECONDS", 0.02)
    monkeypatch.setattr("sottovoce.node.public_model.Predictor.answer", lambda *_: {"labels": [done.wait(TIMEOUT)]})
    async with serve_agent(tmp_path, agent):
        assert "fewer" in (await ask_agent(tmp_path, '{"predict": [[1, 2]]}'))["error"]
        assert (await ask_agent(tmp_path, "status"))["id"] == "abc"
        done.set()


async def test_ranges_known_only_to_the_vault(tmp_path: Path, agent: Agent) -> None:
    agent.config, agent.model = make_config(bounds=None, transform="squash(1)"), np.arange(6.0)
    async with serve_agent(tmp_path, agent):
        assert "ranges" in (await ask_agent(tmp_path, '{"predict": [[1, 2]]}'))["error"]
        assert (await ask_agent(tmp_path, '{"predict": [[1, 2]], "transformed": true}'))["labels"] == [2]
        np.savez(tmp_path / "records.npz", X=np.zeros((1, 2)), y=[0], bounds=[[0, 0], [4, 8]])
        agent.config = make_config(bounds=None, transform="squash(1)", source=f"npz:{tmp_path / 'records.npz'}")
        assert (await ask_agent(tmp_path, "describe"))["bounds"] == [[0.0, 0.0], [4.0, 8.0]]


async def test_only_the_owner_may_open_the_socket_which_is_removed_afterwards(tmp_path: Path, agent: Agent) -> None:
    path = tmp_path / "agent.sock"
    path.write_text("left by a crash")
    async with serve_agent(tmp_path, agent):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize("left", [None, "a file"])
def test_no_agent_answers(tmp_path: Path, left: str | None) -> None:
    if left is not None:
        (tmp_path / "agent.sock").write_text(left)
    with pytest.raises(NetworkError, match="answers"):
        ask(tmp_path, "status")


def test_clients_do_not_wait_for_an_answer_that_is_invalid_or_never_comes(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        listener.listen()
        with pytest.raises(NetworkError):
            ask(tmp_path, "status", timeout=0.05)


def test_waits_are_listed_by_name_with_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    waits = Waits()
    waits.begin("vault", "the vault to answer", 600.0, repeats=True)
    waits.begin("peer", "a peer", 2.0)
    now = 101.5
    assert waits.to_dict() == [
        {"name": "peer", "reason": "a peer", "since_s": 1.5, "left_s": 0.5, "repeats": False},
        {"name": "vault", "reason": "the vault to answer", "since_s": 1.5, "left_s": 598.5, "repeats": True},
    ]
    waits.begin("peer", "again", 1.0)
    waits.end("vault")
    waits.end("nobody")
    assert json.loads(json.dumps(waits.to_dict()))[0]["reason"] == "again"
