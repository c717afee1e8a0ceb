"""Client for a vault in another process, over a Unix socket, with the same interface as a local vault."""

import asyncio
import contextlib
import logging
import random
import socket
import threading
import time
from pathlib import Path
from typing import NoReturn, Protocol

import numpy as np

from sottovoce.concurrency import ThreadPool
from sottovoce.errors import (
    DataError,
    InternalError,
    LedgerError,
    LedgerUnwritable,
    PluginError,
    PrivacyError,
    TaskRefused,
    VaultAway,
)
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused
from sottovoce.privacy.ledger.binding import check_budget
from sottovoce.privacy.ledger.budget import Budget, Spending
from sottovoce.privacy.ledger.chain import LedgerPosition
from sottovoce.privacy.ledger.witnesses import Witness
from sottovoce.privacy.rpc import protocol
from sottovoce.privacy.rpc.protocol import Failed, Introduction, MalformedError, Question, Reply
from sottovoce.privacy.vault.release import SealedRelease

_log = logging.getLogger(__name__)
_ANSWER_SECONDS = 240.0  # timeout for an answer; computing on many records with a large model takes a long time
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 5.0
_FIRST_CONTACT_SECONDS = 1.0  # an agent whose first contact fails reports the wait and retries
_MAX_REPLY_BYTES = 2**26
_WAIT = "vault-process"


class Waiting(Protocol):
    """Interface for reporting waits, usable from any thread."""

    def begin(self, name: str, reason: str, seconds: float) -> None:
        """Report that a wait of at most `seconds` begins; it replaces any wait with this name."""
        ...

    def end(self, name: str) -> None:
        """Report that the wait with this name has ended."""
        ...


class RemoteVault:
    """Client for a vault in another process; see VaultInterface.

    The constructor contacts the vault, waiting if necessary. Each question uses a separate connection. A lost question
    is repeated, because a second answer costs nothing.

    Args:
        path: path to the vault's socket.
        owner: id of this device, to which the vault must belong.
        budget: the budget that the vault's ledger must have.
        patience: seconds to wait for a vault that is unavailable; the first contact waits for at most one second.
        waits: receives reports of the waits.

    Attributes:
        ranges: the declared public ranges of the features, as text; see sottovoce.node.own_task.
        follows: whether records are added while the vault serves.
        task: the document of the task accepted last; empty if no task has been accepted.

    Raises:
        PrivacyError: if there is no vault, if it is not for this device and budget, or if it refuses this user.
    """

    def __init__(self, path: Path, *, owner: str, budget: Budget, patience: float, waits: Waiting) -> None:
        self._path, self._patience, self._waits = path, patience, waits
        self._closed = threading.Event()
        self._connections: set[socket.socket] = set()
        self._thread = ThreadPool(1)
        self._has_connected = self._changing = False
        raw, introduction = self._exchange(protocol.Introduce(), min(patience, _FIRST_CONTACT_SECONDS))
        if not isinstance(introduction, Introduction):
            self._raise_unexpected(introduction)
        if introduction.owner != owner:
            raise LedgerError(
                f"{path}: this vault belongs to device {introduction.owner}, not to {owner}; correct vault.socket"
            )
        check_budget(path, introduction.budget, budget)
        self._fingerprint = protocol.fingerprint(raw)
        self._statement = introduction.statement
        self.ranges = introduction.ranges
        self.follows, self.task = introduction.follows, introduction.task
        self._has_connected = True

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run, as stated by the vault."""
        return self._statement

    def spending(self) -> Spending:
        """Return the spending recorded in the ledger."""
        reply = self._ask(protocol.AskSpending(self._fingerprint))
        return reply.spending if isinstance(reply, protocol.Spent) else self._raise_unexpected(reply)

    def tip(self) -> LedgerPosition:
        """Return the ledger's latest position, as sent to peers."""
        reply = self._ask(protocol.AskTip(self._fingerprint))
        return reply.tip if isinstance(reply, protocol.Reached) else self._raise_unexpected(reply)

    def mark(self, charges: int, released: int) -> bytes | None:
        """Return the hash of the ledger's state at this charge and release, or None if one of them never existed."""
        reply = self._ask(protocol.AskMark(self._fingerprint, charges, released))
        return reply.mark if isinstance(reply, protocol.Marked) else self._raise_unexpected(reply)

    def witnesses(self) -> tuple[Witness, ...]:
        """Return the peers that keep the ledger's latest position."""
        reply = self._ask(protocol.AskKeepers(self._fingerprint))
        return reply.witnesses if isinstance(reply, protocol.Kept) else self._raise_unexpected(reply)

    def appoint(self, witnesses: tuple[Witness, ...]) -> None:
        """Replace the peers that keep the ledger's latest position."""
        reply = self._ask(protocol.Appoint(self._fingerprint, witnesses))
        if not isinstance(reply, protocol.Kept) or reply.witnesses != witnesses:
            self._raise_unexpected(reply)

    def take_up(self, document: bytes) -> None:
        """Ask the vault to accept a task that the fleet has signed. Afterwards, replace this client with a new one.

        Raises:
            TaskRefused: if the vault refuses the task; nothing changed.
        """
        self._changing = True
        reply = self._exchange(protocol.TakeUp(self._fingerprint, document), self._patience)[1]
        if isinstance(reply, Failed) and reply.kind == "anew":  # the question was repeated after a lost answer
            introduction = self._exchange(protocol.Introduce(), self._patience)[1]
            if isinstance(introduction, Introduction) and introduction.task == document:
                return
        if not isinstance(reply, protocol.TakenUp):
            self._changing = False
            self._raise_unexpected(reply)

    async def ask(self, query: Query) -> Answer:
        """Run `answer` in a separate thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.answer, query)

    def answer(self, query: Query) -> Answer:
        """Return the release for a query, or a refusal with a reason.

        Raises:
            VaultAway: if the vault is unavailable and does not become available in time.
            LedgerError: if the vault's ledger failed; nothing was released.
            DataError: if the vault cannot read its records; nothing was charged.
        """
        if query.point.ndim != 1:
            return Refused(query.id, "query", "the query's point is not a vector")
        point = query.point.astype("<f8").tobytes()
        reply = self._ask(protocol.Ask(self._fingerprint, query.learner, query.kind, query.slot, point))
        if isinstance(reply, protocol.Denied) and reply.refused.query_id == query.id:
            return reply.refused
        if not isinstance(reply, protocol.Released) or reply.query_id != query.id or len(reply.value) % 8:
            self._raise_unexpected(reply)
        value = np.frombuffer(reply.value, dtype="<i8").astype(np.int64)
        value.flags.writeable = False
        return SealedRelease(query.id, value, reply.step, self._statement, reply.simulated, reply.units)

    async def take_part(self, query: CellQuery) -> CellAnswer | Refused:
        """Run `step` in a separate thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.step, query)

    def step(self, query: CellQuery) -> CellAnswer | Refused:
        """Perform a step of a secure sum. If its answer is lost, the repeated step is refused, and the round fails.

        Raises:
            VaultAway: if the vault is unavailable and did not return in time.
            LedgerError: if the vault's ledger failed; nothing was released.
        """
        reply = self._ask(protocol.AskStep(self._fingerprint, query.learner, query.payload))
        if isinstance(reply, protocol.Denied) and reply.refused.query_id == query.id:
            return reply.refused
        if not isinstance(reply, protocol.Stepped) or reply.query_id != query.id:
            self._raise_unexpected(reply)
        return CellAnswer(reply.query_id, reply.payload, reply.simulated)

    def close(self) -> None:
        """Stop waiting for the vault. The vault still stores the answer in progress."""
        self._closed.set()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # the exchange has already ended
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.shutdown(wait=True)

    def _ask(self, question: Question) -> Reply:
        reply = self._exchange(question, self._patience)[1]
        if self._changing and isinstance(reply, Failed) and reply.kind == "anew":
            raise asyncio.CancelledError  # another task has begun, and the agent is about to stop because of it
        return reply

    def _exchange(self, question: Question, patience: float) -> tuple[bytes, Reply]:
        """Send a question until a vault replies; return the reply as bytes and as a message."""
        raw, pause, deadline = protocol.encode(question), _FIRST_PAUSE, None
        try:
            while not self._closed.is_set():
                try:
                    return self._exchange_once(raw)
                except TimeoutError as error:
                    raise PrivacyError(
                        f"{self._path}: the vault did not answer within {_ANSWER_SECONDS:g} s; check its log"
                    ) from error
                except PermissionError as error:
                    raise PrivacyError(
                        f"{self._path}: this user does not have permission to open the vault's socket; set "
                        "vault.agent_user to this user in the vault's configuration, and give the user access "
                        "to the socket's directory"
                    ) from error
                except OSError as error:
                    deadline = deadline or self._report_away(error, patience)
                    if time.monotonic() > deadline:
                        raise VaultAway(
                            f"{self._path}: no vault has answered for {patience:g} s ({error}); start it with "
                            "`sottovoce vault run --config FILE`"
                        ) from error
                self._closed.wait(pause * random.uniform(0.5, 1))  # noqa: S311 - the time of a retry is not secret
                pause = min(2 * pause, _MAX_PAUSE, patience)
        finally:
            if deadline is not None:
                self._waits.end(_WAIT)
        raise asyncio.CancelledError  # the agent is stopping and asks again after its next start

    def _report_away(self, error: OSError, patience: float) -> float:
        """Report that the vault is unavailable, with a warning if it has answered before; return the deadline."""
        if self._has_connected:
            _log.warning("vault-away %s: %s", self._path, error)
        self._waits.begin(_WAIT, f"the vault's process to answer at {self._path}", patience)
        return time.monotonic() + patience

    def _exchange_once(self, raw: bytes) -> tuple[bytes, Reply]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            self._connections.add(connection)
            try:
                connection.settimeout(_ANSWER_SECONDS)
                connection.connect(str(self._path))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the vault replied before reading
                    protocol.send(connection, raw, _ANSWER_SECONDS)
                received = protocol.receive(connection, _MAX_REPLY_BYTES, _ANSWER_SECONDS)
                return received, protocol.decode_reply(received)
            except MalformedError as error:
                raise PrivacyError(
                    f"{self._path}: the program listening on this socket is not a vault from this release: {error}"
                ) from error
            finally:
                self._connections.discard(connection)

    def _raise_unexpected(self, reply: Reply) -> NoReturn:
        """Raise the error that corresponds to a failure or to a reply to a different question."""
        if not isinstance(reply, Failed):
            raise InternalError(
                f"the vault sent an unexpected answer ({type(reply).__name__}): this is a bug; please report it"
            )
        match reply.kind:
            case "LedgerUnwritable":
                raise LedgerUnwritable(reply.explanation)
            case "LedgerError":
                raise LedgerError(reply.explanation)
            case "TaskRefused":
                raise TaskRefused(reply.explanation)
            case "PluginError":
                raise PluginError(reply.explanation)
            case "VaultAway":
                raise VaultAway(f"{self._path}: {reply.explanation}")
            case "DataError":
                raise DataError(f"{self._path}: {reply.explanation}")
            case "PrivacyError" | "user" | "anew":
                raise PrivacyError(f"{self._path}: {reply.explanation}")
            case _:
                raise InternalError(f"{self._path}: {reply.explanation}")
