"""Server for a vault behind a Unix socket: one connection at a time, with one question and one answer each.

Every connection must come from the agent's user. The kernel reports the user, and all other users are refused, even
while the vault is busy (admission.py). No input can end the process. The server waits at most a few seconds for a
caller, and holds only one question in memory at a time.
"""

import logging
import os
import selectors
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sottovoce.errors import (
    ConfigError,
    DataError,
    LedgerError,
    LedgerUnwritable,
    PluginError,
    PrivacyError,
    SottovoceError,
    TaskRefused,
)
from sottovoce.plugins import plugin_errors
from sottovoce.privacy.api import CellQuery, Query, Refused
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.rpc import protocol
from sottovoce.privacy.rpc.admission import Admission
from sottovoce.privacy.rpc.protocol import Failed, MalformedError, Question, Reply
from sottovoce.privacy.vault.vault import Vault
from sottovoce.task import MAX_SIGNED_TASK_BYTES

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 5.0  # a caller has this long to send its question, and as long again to read the answer
_LOG_EVERY_SECONDS = 60.0
_BACKLOG = 16
_REPORTED_ERRORS = (LedgerUnwritable, LedgerError, TaskRefused, PrivacyError, PluginError)


@dataclass(frozen=True, slots=True)
class ServedVault:
    """A vault, and the user whose questions it answers.

    Attributes:
        vault: the vault, which must have no other users at the same time.
        owner: id of the device to which the vault belongs.
        budget: the budget of the vault's ledger.
        user: numeric id of the only user who may ask questions.
        max_point_size: maximum length of a point.
        ranges: the declared feature ranges, as text.
        task: the document of the task accepted last.
        take_up: accepts another task, after which the vault is built again; None if this vault does not accept tasks.
    """

    vault: Vault
    owner: str
    budget: Budget
    user: int
    max_point_size: int
    ranges: str = "unknown"
    task: bytes = b""
    take_up: Callable[[bytes], None] | None = None


class VaultServer:
    """Server that answers the questions of one device's agent."""

    def __init__(self, served: ServedVault) -> None:
        vault = served.vault
        introduction = protocol.Introduction(
            served.owner, served.budget, vault.statement, served.ranges, vault.follows, served.task
        )
        self._served = served
        self._introduction = introduction
        self._fingerprint = protocol.fingerprint(protocol.encode(introduction))
        self._max_bytes = (
            max(8 * served.max_point_size, MAX_SIGNED_TASK_BYTES, vault.largest_step) + protocol.OVERHEAD_BYTES
        )
        self._task_accepted = False
        self._logged: dict[str, float] = {}

    def run(
        self,
        listener: socket.socket,
        stop: socket.socket,
        *,
        alive: Callable[[], object] = lambda: None,
        every: float | None = None,
    ) -> bool:
        """Answer connections to `listener` one after another, until `stop` is readable or a task is accepted.

        Args:
            listener: the listening socket; see `listening_socket`.
            stop: socket that becomes readable when the server must stop.
            alive: called before each answer, and at least every `every` seconds while there is no question.
            every: interval in seconds; None if `alive` is never called.

        Returns:
            True if a task was accepted, so that a new vault must be built to answer under it.

        Raises:
            MemoryError: if memory runs out; the question was not answered, and the caller will repeat it.
        """
        admission = Admission(listener, self._served.user, self._turn_away, self._log_refused_connection)
        with admission.open(), selectors.DefaultSelector() as selector:
            selector.register(admission.waiting, selectors.EVENT_READ)
            selector.register(stop, selectors.EVENT_READ)
            while True:
                readable = [key.fileobj for key, _ in selector.select(every)]
                if every is not None:
                    alive()
                if stop in readable:
                    return False
                connection = admission.next_connection() if readable else None
                if connection is not None:
                    with connection:
                        self._serve(connection)
                if self._task_accepted:
                    return True

    def _turn_away(self, connection: socket.socket, user: int) -> None:
        self._log_event("user-refused", f"uid={user}")
        explanation = f"user {user} is not authorised to query this vault; see vault.agent_user in its configuration"
        with suppress(OSError):  # the caller may not read the answer
            connection.send(protocol.frame(protocol.encode(Failed("user", explanation))))

    def _log_refused_connection(self, error: OSError | MemoryError) -> None:
        self._log_event("connections-refused", f"at=the vault's socket will retry: {str(error) or 'no memory'}")

    def _serve(self, connection: socket.socket) -> None:
        """Answer one question. Raise MemoryError if memory is short, after which only the state on disk is reliable."""
        try:
            reply = protocol.encode(self._reply(connection))
            protocol.send(connection, reply, _PATIENCE_SECONDS)
        except OSError as error:
            self._log_event("connection-lost", str(error))

    def _reply(self, connection: socket.socket) -> Reply:
        try:
            raw = protocol.receive(connection, self._max_bytes, _PATIENCE_SECONDS)
            with plugin_errors():  # a plug-in's own text may contain a record
                return self._answer(protocol.decode_question(raw))
        except MalformedError as error:
            self._log_event("question-malformed", str(error))
            return Failed("malformed", str(error))
        except DataError as error:  # the text may identify the faulty record, so it does not leave the vault
            self._log_event("question-failed", str(error))
            is_temporary = isinstance(error.__cause__, sqlite3.OperationalError | OSError)
            return Failed(
                "VaultAway" if is_temporary else "DataError", "the vault cannot currently read its records; see its log"
            )
        except SottovoceError as error:
            self._log_event("question-failed", str(error))
            kind = next((kind for kind in _REPORTED_ERRORS if isinstance(error, kind)), SottovoceError)
            if kind is LedgerError and isinstance(error.__cause__, sqlite3.OperationalError | OSError):
                kind = LedgerUnwritable  # the ledger was writable when this process began to serve
            return Failed(kind.__name__, str(error))
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug must not stop the vault, and its message must not leave it
            self._log_event("question-failed", f"defect={type(error).__name__}")
            return Failed("InternalError", "because of a bug, the vault could not answer this query; please report it")

    def _log_event(self, event: str, details: str) -> None:
        """Log each kind of event at most once a minute; otherwise, callers could fill a disk with log lines."""
        now = time.monotonic()
        if now - self._logged.get(event, float("-inf")) >= _LOG_EVERY_SECONDS:
            self._logged[event] = now
            _log.warning("%s %s", event, repr(details)[1:-1])

    def _answer(self, question: Question) -> Reply:
        vault = self._served.vault
        if isinstance(question, protocol.Introduce):
            return self._introduction
        if question.vault != self._fingerprint:
            return Failed("anew", "the vault was restarted with different settings; restart the agent too")
        match question:
            case protocol.AskSpending():
                return protocol.Spent(vault.spending())
            case protocol.AskTip():
                return protocol.Reached(vault.tip())
            case protocol.AskMark(charges=charges, released=released):
                return protocol.Marked(vault.mark(charges, released))
            case protocol.AskKeepers():
                return protocol.Kept(vault.witnesses())
            case protocol.Appoint(witnesses=witnesses):
                if witnesses != vault.witnesses():  # equal if the question was repeated after a lost answer
                    vault.appoint(witnesses)
                return protocol.Kept(witnesses)
            case protocol.TakeUp(document=document):
                return self._take_up(document)
            case protocol.Ask():
                return self._answer_query(question)
            case protocol.AskStep(learner=learner, payload=step):
                answer = vault.step(CellQuery(learner, step))
                if isinstance(answer, Refused):
                    return protocol.Denied(answer)
                return protocol.Stepped(answer.query_id, answer.payload, answer.simulated)

    def _take_up(self, document: bytes) -> Reply:
        take_up = self._served.take_up
        if take_up is None:
            raise TaskRefused("this vault does not accept tasks")
        self._served.vault.end(lambda: take_up(document), "another task has begun")
        self._task_accepted = True
        return protocol.TakenUp()

    def _answer_query(self, question: protocol.Ask) -> Reply:
        if len(question.point) % 8:
            raise MalformedError("a point must consist of 8-byte numbers")
        point = np.frombuffer(question.point, dtype="<f8").astype(np.float64)
        answer = self._served.vault.answer(Query(question.learner, question.kind, question.slot, point))
        if isinstance(answer, Refused):
            return protocol.Denied(answer)
        value = answer.value.astype("<i8").tobytes()
        return protocol.Released(answer.query_id, value, answer.step, answer.simulated, answer.units)


@contextmanager
def listening_socket(path: Path, *, shared: bool) -> Iterator[socket.socket]:
    """Yield a listening socket at `path`, which is removed afterwards. Call this only while the ledger is locked.

    Args:
        path: path of the socket; a socket left there by an earlier vault is replaced.
        shared: whether the agent runs as a different user. In that case, the file's mode allows every user to connect,
            and the vault checks the user id that the kernel reports and refuses every user except one.

    Raises:
        ConfigError: if the socket cannot be created.
    """
    if sys.platform != "linux":
        raise ConfigError(
            "vault.socket: a separate vault requires Linux, whose kernel identifies the connecting user; remove [vault]"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        _bind(listener, path, 0o666 if shared else 0o600)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _bind(listener: socket.socket, path: Path, mode: int) -> None:
    try:
        if path.exists() and not path.is_socket():
            raise ConfigError(f"vault.socket: {path}: the existing file is not a socket; specify a different path")
        path.unlink(missing_ok=True)
        mask = os.umask(0o777 & ~mode)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"vault.socket: {path}: the vault cannot listen there ({error.strerror or error}); specify a path of "
            "at most 100 characters in a directory to which the vault's user may write"
        ) from error
