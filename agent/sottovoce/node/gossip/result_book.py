"""A device's results: each opened sum with the signatures that have arrived, in one file per sum.

A file has the form that `sottovoce results` reads. This device's own sum is written, with its signature, before any
peer learns of it. Other members' signatures only add to a file, so they are written in batches: when enough members
have signed, when all have, and when the agent stops. A lost batch arrives again.
"""

import logging
from collections.abc import Callable, Collection
from hashlib import sha256
from pathlib import Path

from msgspec import structs

from sottovoce.errors import DataError, IdentityError, MessageRefused
from sottovoce.fleet import Identity
from sottovoce.fleet.files import make_private_directory, read, replace
from sottovoce.fleet.signed_task import TASK_FILE as TASK, read_task
from sottovoce.node.gossip.revocation_store import NAME as REVOKED
from sottovoce.node.opened_sum import (
    Confirmation,
    OpenedSum,
    ResultFile,
    SignedSum,
    check_confirmation,
    read_result,
    verify_result,
)

_log = logging.getLogger(__name__)
NAME = "results"
MAX_RESULTS = 16
"""Number of results that a device keeps, the newest; each takes up to a kilobyte per member."""

_SUFFIX = ".json"
_MAX_CANDIDATES = 4  # unconfirmed sums kept in memory; an honest fleet has one at a time


class ResultBook:
    """The results of one device.

    Args:
        state: the device's state directory.
        task: digest of the device's task.
        identity: returns this device's identity, which signs the sums that it opened.
        is_revoked: returns whether the fleet has revoked a device.

    Raises:
        IdentityError: if a stored result cannot be read.
    """

    def __init__(
        self, state: Path, task: bytes, identity: Callable[[], Identity], is_revoked: Callable[[str], bool]
    ) -> None:
        self._directory, self._task = state / NAME, task
        self._identity, self._is_revoked = identity, is_revoked
        self._results: dict[bytes, ResultFile] = {}
        self._unwritten: set[bytes] = set()
        self._candidates: dict[bytes, ResultFile] = {}
        for document in read_results(state):
            self._results[document.opened.digest] = document

    @property
    def results(self) -> tuple[ResultFile, ...]:
        """The results, oldest first."""
        return tuple(self._results.values())

    def find(self, digest: bytes) -> ResultFile | None:
        """Return the result with this content; None if there is none."""
        return self._results.get(digest)

    def missing_confirmations(self, digest: bytes) -> bool:
        """Return whether a member of the sum has not signed it yet, as far as this device knows."""
        document = self._results[digest]
        return len(document.confirmations) < len(document.opened.owners)

    def add_own(self, opened: OpenedSum, day: int) -> bool:
        """Store a sum that this device opened, and sign it as a member; return whether that changed anything.

        A device signs only one content per task and sum, so that no two contents can both have enough signatures. A
        device outside the roster has opened the sum as well, but its signature does not count.
        """
        identity, digest = self._identity(), opened.digest
        for other in self.results:
            if _is_same_sum(other.opened, opened) and other.opened.digest != digest:
                _log.error("result-contradicts sum %d was opened again with another content", opened.slot)
                return False
        document = self._results.get(digest) or ResultFile(opened=opened, confirmations=())
        if any(each.owner == identity.node_id for each in document.confirmations):
            return False
        if identity.node_id not in opened.owners:
            self._store(document)
            self._write(digest)
            return True
        unsigned = SignedSum(identity.node_id, day, digest, identity.certificate_der)
        message = unsigned.signed_bytes(identity.fleet, self._task)
        own = Confirmation(
            owner=unsigned.owner, day=day, credential=unsigned.credential, signature=identity.sign(message)
        )
        self._store(document.with_confirmations([own]))
        self._write(digest)
        return True

    def add_confirmations(self, digest: bytes, confirmations: Collection[Confirmation]) -> bool:
        """Add the new ones among other members' signatures on a known sum; return whether there were any.

        Raises:
            MessageRefused: if a signature is not valid; then none is added.
        """
        document = self._results[digest]
        known = {each.owner for each in document.confirmations}
        new = [each for each in confirmations if each.owner not in known and not self._is_revoked(each.owner)]
        for each in new:
            check_confirmation(each, document.opened, self._identity().authority)
        if not new:
            return False
        before, after = len(document.confirmations), len(document.confirmations) + len(new)
        self._store(document.with_confirmations(new))
        needed = document.opened.read_cell().opening_threshold(len(document.opened.owners))
        if before < needed <= after or after == len(document.opened.owners):
            self._write(digest)
        return True

    def add_confirmed(self, opened: OpenedSum, confirmations: Collection[Confirmation]) -> bool:
        """Store a sum of this device's task that it did not open itself, once enough members' signatures have arrived.

        Returns:
            Whether enough have arrived; until then, the sum and its signatures are kept in memory.

        Raises:
            MessageRefused: if the sum is of another task, another content of it is known, or a signature is not valid.
        """
        if sha256(opened.task.encode()).digest() != self._task:
            raise MessageRefused("task", "a result is of another task than this device's")
        if any(_is_same_sum(other.opened, opened) for other in self.results):
            raise MessageRefused("cell", f"another content of sum {opened.slot} is known")
        authority, digest = self._identity().authority, opened.digest
        counted = [each for each in confirmations if not self._is_revoked(each.owner)]
        for each in counted:
            check_confirmation(each, opened, authority)
        known = self._candidates.pop(digest, None) or ResultFile(opened=opened, confirmations=())
        document = known.with_confirmations(counted)
        try:
            verify_result(document, authority, (), required=1)
        except IdentityError:
            self._candidates[digest] = document
            for oldest in [*self._candidates][:-_MAX_CANDIDATES]:
                del self._candidates[oldest]
            return False
        self._store(document)
        self._write(digest)
        return True

    def close(self) -> None:
        """Write what has not been written yet."""
        for digest in tuple(self._unwritten):
            self._write(digest)

    def _store(self, document: ResultFile) -> None:
        digest = document.opened.digest
        self._results[digest] = document
        self._unwritten.add(digest)

    def _write(self, digest: bytes) -> None:
        """Write a result; if the disk is full, for example, keep it in memory until the next attempt."""
        try:
            if not self._directory.exists():
                make_private_directory(self._directory)
            replace(self._path(digest), self._results[digest].encoding)
        except IdentityError as error:
            _log.warning("result-not-written %s", error)
            return
        self._unwritten.discard(digest)
        for oldest in [*self._results][: max(0, len(self._results) - MAX_RESULTS)]:
            del self._results[oldest]
            self._unwritten.discard(oldest)
            self._path(oldest).unlink(missing_ok=True)

    def _path(self, digest: bytes) -> Path:
        return self._directory / f"{digest.hex()[:32]}{_SUFFIX}"


def read_results(state: Path) -> list[ResultFile]:
    """Return the results in a device's state directory, oldest first; a file that cannot be read is logged.

    Raises:
        IdentityError: if the directory or a file cannot be accessed.
    """
    documents = []
    for path in sorted((state / NAME).glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns):
        try:
            documents.append(read_result(read(path), path))
        except DataError as error:
            _log.error("result-not-read %s", error)
    return documents


def with_fleet_documents(document: ResultFile, state: Path) -> ResultFile:
    """Return a result with the fleet's signed documents in a state directory, so that the file can be verified alone.

    These are the revocation list and, if the result is of the fleet's newest task, that task.
    """
    revoked, task = (_read_if_exists(state / name) for name in (REVOKED, TASK))
    is_of_task = bool(task) and read_task(task, state / TASK).epoch == document.opened.epoch
    return structs.replace(document, revoked=revoked, fleet_task=task if is_of_task else b"")


def _read_if_exists(path: Path) -> bytes:
    return read(path) if path.exists() else b""


def _is_same_sum(first: OpenedSum, second: OpenedSum) -> bool:
    return (first.task, first.slot) == (second.task, second.slot)
