"""Local control socket: one line per question, one line of JSON per answer. Only the agent's own user may open it.

If the configuration names a second socket for readers, the agent's group may open it and receives only public state.
"""

import asyncio
import base64
import contextlib
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.agent.faults import Fault
from sottovoce.config import AgentConfig
from sottovoce.durable import read_only
from sottovoce.errors import NetworkError
from sottovoce.observe.request_server import RequestServer

if TYPE_CHECKING:
    from sottovoce.agent.predictions import Predictor
    from sottovoce.agent.roster import Listing

LONGEST_QUESTION = 2**20
"""Largest size of a question, in bytes."""

_LONGEST_READERS_QUESTION = 1024
_QUESTION_SECONDS = 5.0
_PREDICTION_SECONDS = 30.0
_QUEUE_PAUSE_SECONDS = 0.01


Answer = Callable[[bytes | None], Awaitable[dict[str, Any]]]
"""Answers a question; None is one that is too long."""


class Controlled(Protocol):
    """Interface of an agent for the control socket."""

    config: AgentConfig
    model: NDArray[np.float64] | None
    cycle: int

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        ...

    def stop(self) -> None:
        """Stop cleanly."""
        ...

    async def leave(self) -> dict[str, Any]:
        """Hand over this device's part, stop, and return once the handover is done."""
        ...


class ControlServer:
    """Server for `status`, `fleet`, `model`, `describe`, `predict`, `look`, `stop` and `leave`.

    Args:
        path: path of the socket.
        agent: the agent to ask.
        readers: path of the socket for readers, if there is one.
    """

    def __init__(self, path: Path, agent: Controlled, readers: Path | None = None) -> None:
        self._agent = agent
        self._places = [(path, 0o177, self._answer, LONGEST_QUESTION)]
        if readers is not None:
            self._places.append((readers, 0o117, self._answer_reader, _LONGEST_READERS_QUESTION))
        self._servers: list[tuple[RequestServer, Path]] = []
        self._predictor: Predictor | None = None
        self._predicting = asyncio.Lock()

    async def start(self) -> None:
        """Listen on the owner's socket, and on the readers' socket, which the group may also use."""
        for path, forbidden, answer, longest in self._places:
            server = RequestServer(
                str(path),
                complete=lambda question: b"\n" in question,
                answer=partial(_encode_answer, answer),
                longest=longest,
                seconds=_QUESTION_SECONDS,
            )
            server.start(_bind_socket(path, forbidden))
            self._servers.append((server, path))

    async def stop(self) -> None:
        """Stop listening and remove the sockets."""
        for server, path in self._servers:
            await server.stop()
            with contextlib.suppress(OSError):  # on a read-only disk the socket stays, and the next start removes it
                path.unlink(missing_ok=True)

    async def _answer_reader(self, question: bytes | None) -> dict[str, Any]:
        """Return the answer for a reader: public facts about the fleet, and what a fault's kind allows to be shown."""
        if question == b"status":
            return public_status(self._agent.status())
        return (
            await self._answer(question) if question == b"model" else {"error": "unknown request: send status or model"}
        )

    async def _answer(self, question: bytes | None) -> dict[str, Any]:
        match question:
            case None:
                return {"error": f"the request is longer than {LONGEST_QUESTION} bytes: send fewer records"}
            case b"leave":
                return await self._agent.leave()
            case b"status":
                return self._agent.status()
            case b"fleet":
                return await self._roster()
            case b"model":
                model = self._agent.model
                encoded = None if model is None else base64.b64encode(model.astype("<f8").tobytes()).decode()
                return {"cycle": self._agent.cycle, "parameters": encoded}
            case b"describe":
                return self._description()
            case b"look":
                return self._retry_fleet_tasks()
            case b"stop":
                self._agent.stop()
                return {"stopping": True}
            case line if line.startswith(b"{"):
                return await self._prediction(line)
            case _:
                return {"error": "unknown request: send status, fleet, model, describe, predict, look, stop or leave"}

    def _retry_fleet_tasks(self) -> dict[str, Any]:
        if "fault" not in self._agent.status():  # otherwise the agent looks once it is at work again
            cast("Listing", self._agent).tasks.fleets.retry_now()
        return {"looking": True}

    async def _roster(self) -> dict[str, Any]:
        from sottovoce.agent.roster import roster

        if "fault" in (status := self._agent.status()):
            return status  # the agent is not at work, and knows no peers
        return await roster(cast("Listing", self._agent))

    def _description(self) -> dict[str, Any]:
        from msgspec import to_builtins

        from sottovoce.agent.description import describe_model

        found: dict[str, Any] = to_builtins(describe_model(self._agent.config, self._agent.status()["privacy"]))
        return found

    async def _prediction(self, line: bytes) -> dict[str, Any]:
        """Answer one prediction at a time, on a thread of its own, so that the agent keeps working meanwhile."""
        from sottovoce.agent.predictions import Predictor  # imported late: saves memory in an agent that is never asked

        try:
            async with asyncio.timeout(_PREDICTION_SECONDS), self._predicting:
                self._predictor = self._predictor or Predictor(self._agent.config)
                model, cycle = self._agent.model, self._agent.cycle
                return await asyncio.to_thread(self._predictor.answer, line, model, cycle)
        except TimeoutError:
            return {"error": f"the prediction took more than {_PREDICTION_SECONDS:g} s: send fewer records"}


def public_status(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status without details of a fault that may reveal records."""
    if (fault := status.get("fault")) is None:
        return status
    return {**status, "fault": {**fault, "reason": Fault.of_status(fault).public_reason}}


async def _encode_answer(answer: Answer, question: bytes | None) -> bytes:
    """Return the answer to a question, as a line."""
    return json.dumps(await answer(None if question is None else question.partition(b"\n")[0].strip())).encode() + b"\n"


def _bind_socket(path: Path, forbidden: int) -> socket.socket:
    """Bind a socket to this path, without listening yet."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(forbidden)
    try:
        listening.bind(str(path))
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening


def ask(
    state: Path,
    question: str,
    timeout: float = _QUESTION_SECONDS,
    *,
    waiting: bool = False,
    readers: Path | None = None,
) -> dict[str, Any]:
    """Ask the agent of a state directory.

    Args:
        state: the directory.
        question: a question that the agent answers.
        timeout: seconds.
        waiting: whether to also accept the answer of an agent that a fault keeps from working.
        readers: socket for readers, to be asked instead.

    Raises:
        NetworkError: if no agent is running there, or it does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            _connect(connection, str(readers or state / "agent.sock"), timeout)
            connection.sendall(question.encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline())
        except (OSError, ValueError) as error:
            remedy = "start it with `sottovoce agent run --config FILE`"
            if read_only(state):  # the agent waits for the disk, and has no place for its socket
                remedy = "its disk is mounted read-only: see why, and mount it for writing"
            raise NetworkError(f"{state}: no agent answers there; {remedy}") from error
    if "fault" in answer and not waiting:
        fault = Fault.of_status(answer["fault"])
        raise NetworkError(f"{state}: the agent {fault.current_action}: {fault.reason}")
    return answer


def _connect(connection: socket.socket, path: str, seconds: float) -> None:
    """Connect, even while other processes fill the kernel's queue."""
    until = time.monotonic() + seconds
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(_QUEUE_PAUSE_SECONDS)


def decode_parameters(answer: dict[str, Any]) -> NDArray[np.float64] | None:
    """Return float64[P] from the answer to `model`, or None before the first model."""
    encoded = answer["parameters"]
    return None if encoded is None else np.frombuffer(base64.b64decode(encoded), dtype="<f8").astype(np.float64)
