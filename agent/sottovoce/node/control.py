"""Local control socket: each request is one line, and each response is one line of JSON.

Only the agent's own user may open the socket. If the configuration specifies a second socket for readers, the agent's
group may open that one, but receives only public state.
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
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.config import AgentConfig
from sottovoce.errors import NetworkError
from sottovoce.fleet import load
from sottovoce.fleet.consent import OwnerAnswer, save_consent
from sottovoce.fleet.identity import IDENTITY
from sottovoce.fleet.signed_task import SignedTask, load_task
from sottovoce.net.request_server import RequestServer
from sottovoce.node.faults import Fault
from sottovoce.storage.durable import is_read_only

if TYPE_CHECKING:
    from sottovoce.node.public_model import Predictor

MAX_CONTROL_REQUEST = 2**20
"""Largest request size, in bytes."""

_MAX_READER_REQUEST_BYTES = 1024
_REQUEST_SECONDS = 5.0
_PREDICTION_SECONDS = 30.0
_QUEUE_PAUSE_SECONDS = 0.01


Answer = Callable[[bytes | None], Awaitable[dict[str, Any]]]
"""Function that answers a request; it receives None if the request was too long."""
STATUS_SCHEMA = "sottovoce.status/1"


class ControlTarget(Protocol):
    """Interface that the control socket expects of an agent."""

    config: AgentConfig
    model: NDArray[np.float64] | None
    cycle: int

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        ...

    def stop(self) -> None:
        """Stop cleanly."""
        ...

    async def fleet_report(self) -> dict[str, Any]:
        """Return the report on the devices that this one knows; the status if a fault stops the agent."""
        ...

    def retry_fleet_tasks(self) -> None:
        """Look for a fleet task that may begin now, because the owner may have answered."""
        ...

    async def list_results(self) -> list[str]:
        """Return the device's results, as the text of one result file each, oldest first."""
        ...

    async def leave(self) -> dict[str, Any]:
        """Hand over the state that the fleet still needs from this device, stop, and return the outcome."""
        ...


class ControlServer:
    """Server for the requests `status`, `fleet`, `model`, `results`, `describe`, `predict`, `look`, `stop` and `leave`.

    Args:
        path: path of the owner's socket.
        agent: the agent that answers the requests.
        readers: path of the readers' socket, if there is one.
    """

    def __init__(self, path: Path, agent: ControlTarget, readers: Path | None = None) -> None:
        self._agent = agent
        self._endpoints = [(path, 0o177, self._answer, MAX_CONTROL_REQUEST)]
        if readers is not None:
            self._endpoints.append((readers, 0o117, self._answer_reader, _MAX_READER_REQUEST_BYTES))
        self._servers: list[tuple[RequestServer, Path]] = []
        self._predictor: Predictor | None = None
        self._prediction_lock = asyncio.Lock()

    async def start(self) -> None:
        """Listen on the owner's socket and, if configured, on the readers' socket, which is open to the group."""
        for path, forbidden, answer, max_bytes in self._endpoints:
            server = RequestServer(
                str(path),
                is_complete=lambda request: b"\n" in request,
                answer=partial(_encode_answer, answer),
                max_bytes=max_bytes,
                seconds=_REQUEST_SECONDS,
            )
            server.start(_bind_socket(path, forbidden))
            self._servers.append((server, path))

    async def stop(self) -> None:
        """Stop listening and remove the sockets."""
        for server, path in self._servers:
            await server.stop()
            with contextlib.suppress(OSError):  # on a read-only disk, the next start removes it
                path.unlink(missing_ok=True)

    async def _answer_reader(self, request: bytes | None) -> dict[str, Any]:
        """Return the answer for a reader: public state only, with no fault reason that may reveal records."""
        if request is None:
            return {"error": f"the request exceeds {_MAX_READER_REQUEST_BYTES} bytes; send status or model"}
        if request == b"status":
            return public_status(self._agent.status())
        if request == b"model":
            return await self._answer(request)
        return {"error": "unknown request; the supported requests are status and model"}

    async def _answer(self, request: bytes | None) -> dict[str, Any]:
        match request:
            case None:
                return {"error": f"the request exceeds {MAX_CONTROL_REQUEST} bytes; send fewer records"}
            case b"leave":
                return await self._agent.leave()
            case b"status":
                return self._agent.status()
            case b"fleet":
                return await self._agent.fleet_report()
            case b"model":
                model = self._agent.model
                encoded = None if model is None else base64.b64encode(model.astype("<f8").tobytes()).decode()
                return {"cycle": self._agent.cycle, "parameters": encoded}
            case b"results":
                return {"results": await self._agent.list_results()}
            case b"describe":
                return self._describe_model()
            case b"look":
                self._agent.retry_fleet_tasks()
                return {"looking": True}
            case b"stop":
                self._agent.stop()
                return {"stopping": True}
            case line if line.startswith(b"{"):
                return await self._predict(line)
            case _:
                return {
                    "error": "unknown request; the supported requests are status, fleet, model, results, describe, "
                    "predict, look, stop and leave"
                }

    def _describe_model(self) -> dict[str, Any]:
        from msgspec import to_builtins

        from sottovoce.node.public_model import describe_model

        description: dict[str, Any] = to_builtins(describe_model(self._agent.config, self._agent.status()["privacy"]))
        return description

    async def _predict(self, line: bytes) -> dict[str, Any]:
        """Answer one prediction at a time, on a separate thread so as not to block the agent."""
        from sottovoce.node.public_model import Predictor  # imported late to save memory if it is never used

        try:
            async with asyncio.timeout(_PREDICTION_SECONDS), self._prediction_lock:
                self._predictor = self._predictor or Predictor(self._agent.config)
                model, cycle = self._agent.model, self._agent.cycle
                return await asyncio.to_thread(self._predictor.answer, line, model, cycle)
        except TimeoutError:
            return {"error": f"the prediction took more than {_PREDICTION_SECONDS:g} s; send fewer records"}


def public_status(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status without any fault details that may reveal records."""
    if (fault := status.get("fault")) is None:
        return status
    return {**status, "fault": {**fault, "reason": Fault.from_status(fault).public_reason}}


async def _encode_answer(answer: Answer, request: bytes | None) -> bytes:
    """Return the answer to a request, encoded as a line of JSON."""
    return json.dumps(await answer(None if request is None else request.partition(b"\n")[0].strip())).encode() + b"\n"


def _bind_socket(path: Path, forbidden: int) -> socket.socket:
    """Bind a socket to this path without the forbidden permission bits, and return it before it listens."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous_mask = os.umask(forbidden)
    try:
        listener.bind(str(path))
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(previous_mask)
    return listener


def ask(
    state: Path,
    request: str,
    timeout: float = _REQUEST_SECONDS,
    *,
    waiting: bool = False,
    readers: Path | None = None,
) -> dict[str, Any]:
    """Send a request to the agent that runs on a state directory, and return its answer.

    Args:
        state: the state directory.
        request: the request to send.
        timeout: timeout in seconds.
        waiting: whether to also accept an answer from an agent that is held up by a fault.
        readers: path of the readers' socket, to use instead of the owner's.

    Raises:
        NetworkError: if no agent is running there, or the agent does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            _connect(connection, str(readers or state / "agent.sock"), timeout)
            connection.sendall(request.encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline())
        except (OSError, ValueError) as error:
            remedy = "start it with `sottovoce agent run --config FILE`"
            if is_read_only(state):  # the agent is waiting for the disk and cannot create its socket
                remedy = "the disk is mounted read-only; fix the cause and remount it read-write"
            raise NetworkError(f"{state}: no agent answers there; {remedy}") from error
    if "fault" in answer and not waiting:
        fault = Fault.from_status(answer["fault"])
        raise NetworkError(f"{state}: the agent {fault.current_action}: {fault.reason}")
    return answer


def _connect(connection: socket.socket, path: str, seconds: float) -> None:
    """Connect to a socket, retrying for this many seconds while the kernel's connection queue is full."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_QUEUE_PAUSE_SECONDS)


def decode_parameters(answer: dict[str, Any]) -> NDArray[np.float64] | None:
    """Return the parameters, float64[P], from the answer to `model`; None if there is no model yet."""
    encoded = answer["parameters"]
    return None if encoded is None else np.frombuffer(base64.b64decode(encoded), dtype="<f8").astype(np.float64)


def ask_status(state: Path, timeout: float) -> dict[str, Any] | None:
    """Return the status of the agent that runs on a state directory; None if no agent of this version answers in time.

    Args:
        state: the state directory.
        timeout: timeout in seconds.
    """
    try:
        status = ask(state, "status", timeout)
    except NetworkError:
        return None
    return status if status.get("schema") == STATUS_SCHEMA else None


def consent_directory(config: AgentConfig) -> Path:
    """Return the directory that contains the ledger and the owner's consent."""
    return config.vault.directory or config.agent.state


def load_newest_task(config: AgentConfig) -> SignedTask | None:
    """Return the newest fleet task that the device has stored, or None.

    Raises:
        IdentityError: if the device's keys or the task cannot be read.
    """
    state = config.agent.state
    return load_task(state, load(state / IDENTITY, check_dates=False).authority)


def record_answer(config: AgentConfig, task: SignedTask, answer: OwnerAnswer) -> None:
    """Store the owner's answer durably, and notify the agent if it is running.

    Raises:
        IdentityError: if the answer cannot be written.
        TaskRefused: if the owner has already withdrawn from the task; a withdrawal is permanent.
    """
    save_consent(consent_directory(config), task, answer)
    with contextlib.suppress(NetworkError):  # if the agent is not running, it reads the answer at its next start
        ask(config.agent.state, "look")
