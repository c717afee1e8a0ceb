"""The local control socket: one JSON question a connection, one JSON answer. Only the agent's own user may open it."""

import asyncio
import base64
import json
import os
import socket
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import NetworkError

_LONGEST_QUESTION = 4096
_QUESTION_SECONDS = 5.0


class Controlled(Protocol):
    """What the socket needs of an agent."""

    model: NDArray[np.float64] | None
    cycle: int

    def status(self) -> dict[str, Any]:
        """The status document."""
        ...

    def stop(self) -> None:
        """Stop cleanly."""
        ...

    async def leave(self) -> dict[str, Any]:
        """Hand over what others would miss, and stop; returns once that is done."""
        ...


class ControlServer:
    """Answers `status`, `model`, `stop` and `leave`.

    Args:
        path: of the socket.
        agent: whom to ask.
    """

    def __init__(self, path: Path, agent: Controlled) -> None:
        self._path = path
        self._agent = agent
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, readable and writable for the owner alone."""
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=_LONGEST_QUESTION)
        finally:
            os.umask(mask)

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_QUESTION_SECONDS):
                question = await reader.readline()
            answer = await self._agent.leave() if question.strip() == b"leave" else self._answer(question)
            async with asyncio.timeout(_QUESTION_SECONDS):
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # whoever asked has gone, or sent more than a question; there is nobody to tell
        finally:
            writer.close()

    def _answer(self, question: bytes) -> dict[str, Any]:
        match question.strip():
            case b"status":
                return self._agent.status()
            case b"model":
                model = self._agent.model
                encoded = None if model is None else base64.b64encode(model.astype("<f8").tobytes()).decode()
                return {"cycle": self._agent.cycle, "parameters": encoded}
            case b"stop":
                self._agent.stop()
                return {"stopping": True}
            case _:
                return {"error": "ask status, model, stop or leave"}


def ask(state: Path, question: str, timeout: float = _QUESTION_SECONDS) -> dict[str, Any]:
    """Ask the agent of a state directory.

    Raises:
        NetworkError: no agent is running there, or it does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(state / "agent.sock"))
            connection.sendall(question.encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline())
        except (OSError, ValueError) as error:
            raise NetworkError(
                f"{state}: no agent answers there; start it with `sottovoce agent run --config FILE`"
            ) from error
    return answer


def parameters(answer: dict[str, Any]) -> NDArray[np.float64] | None:
    """float64[P] from the answer to `model`, or None before the first model."""
    encoded = answer["parameters"]
    return None if encoded is None else np.frombuffer(base64.b64decode(encoded), dtype="<f8").astype(np.float64)
