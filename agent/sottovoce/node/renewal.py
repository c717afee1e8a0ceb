"""Certificate renewal while the agent runs: reloads changed files, and requests a certificate before expiry."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import IdentityError, NetworkError
from sottovoce.fleet import Identity, Trust, load
from sottovoce.fleet.clock import ClockFloor
from sottovoce.fleet.renewal import install_certificate, make_renewal_request, renewal_time
from sottovoce.node.faults import transient_fault_kind
from sottovoce.node.waits import Waits

_log = logging.getLogger(__name__)
_NOTE_INTERVAL = timedelta(hours=1)
_WARNING_INTERVAL = timedelta(days=1)
_REQUEST_INTERVAL = timedelta(minutes=10)
_WAIT = "renewal"

Stamp = tuple[tuple[str, int, int, int], ...]
_NO_STAMP: Stamp = (("", 0, 0, 0),)


class Renewal:
    """A watcher that renews the certificate before it expires, and reloads the identity when its files change.

    Args:
        trust: trust that receives each new identity.
        directory: directory of the identity's files.
        callbacks: other files to watch, each with the function to call when it has changed.
        floor: lower bound for the clock; the current time is recorded in it every hour.
        enroller: host:port of the enroller that issues new certificates; None if an operator installs them.
        pinned_nodes: the node ids that a pinned device trusts.
        pause: seconds between file checks.
        waits: record of the waits in progress.
    """

    def __init__(
        self,
        *,
        trust: Trust,
        directory: Path,
        callbacks: Mapping[Path, Callable[[], Awaitable[None]]],
        floor: ClockFloor,
        enroller: str | None,
        pinned_nodes: tuple[str, ...],
        pause: float,
        waits: Waits,
    ) -> None:
        self._trust = trust
        self._directory = directory
        self._callbacks = callbacks
        self._floor = floor
        self._enroller = enroller
        self._pinned_nodes = pinned_nodes
        self._pause = pause
        self._waits = waits
        self._stopping = asyncio.Event()
        self._time_recorded_at = self._warned_at = self._requested_at = datetime.min.replace(tzinfo=UTC)
        # The first check must detect any change made since the files were read.
        self._identity_stamp, self._file_stamps = _NO_STAMP, dict.fromkeys(callbacks, _NO_STAMP)

    async def run(self) -> None:
        """Check the certificate and the files repeatedly until stopped.

        Raises:
            IdentityError: if this device is revoked.
        """
        while not self._stopping.is_set():
            await self._check_once()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._pause)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()

    async def _check_once(self) -> None:
        loop, now = asyncio.get_running_loop(), datetime.now(UTC)
        if now - self._time_recorded_at >= _NOTE_INTERVAL:
            self._time_recorded_at = now
            await loop.run_in_executor(None, self._record_time, now)
        if now >= renewal_time(self._trust.identity):
            await self._renew(now)
        else:
            self._waits.end(_WAIT)
        identity, files = await loop.run_in_executor(None, self._read_stamps)
        if identity != self._identity_stamp:
            self._identity_stamp = identity
            await self._reload_identity()
        for file, stamp in files.items():
            if stamp != self._file_stamps[file]:
                self._file_stamps[file] = stamp
                await self._callbacks[file]()

    async def _reload_identity(self) -> None:
        """Reload the identity after its files have changed."""
        loop = asyncio.get_running_loop()
        try:
            identity = await loop.run_in_executor(None, lambda: load(self._directory, peers=self._pinned_nodes))
            if _have_same_certificates(identity, self._trust.identity):
                return
            self._trust.renew(identity)
        except IdentityError as error:
            if (kind := transient_fault_kind(error, has_worked=True)) is not None:
                self._identity_stamp = _NO_STAMP  # the files may be well: they are read again at the next check
                _log.warning("fault-passes kind=%s the agent retries until the fault clears: %s", kind, error)
                return
            _log.error("identity-not-taken %s; the agent keeps its current identity", error)
            return
        _log.info("identity-renewed expires=%s", identity.not_after.isoformat())

    async def _renew(self, now: datetime) -> None:
        """Request a certificate once two thirds of the old one's lifetime has passed; warn daily if that fails."""
        identity = self._trust.identity
        if self._enroller is not None and now - self._requested_at >= self._request_interval(identity):
            self._requested_at, pause = now, self._request_interval(identity).total_seconds() + self._pause
            reason, previous = f"the enroller {self._enroller} to renew the certificate", self._waits.current.get(_WAIT)
            self._waits.begin(_WAIT, reason, pause, None if previous is None else previous.since, repeats=True)
            try:
                await asyncio.get_running_loop().run_in_executor(
                    None, self._request_certificate, self._enroller, identity
                )
                self._waits.end(_WAIT)
                return
            except (IdentityError, NetworkError) as error:
                _log.warning("renewal-failed %s", error)
        if now - self._warned_at >= _WARNING_INTERVAL:
            self._warned_at = now
            _log.warning("certificate-due %s", overdue_warning(identity, now))

    def _request_certificate(self, enroller: str, identity: Identity) -> None:
        # Imported late to save memory in an agent without an enroller.
        from sottovoce.net.enrolment import request_renewal

        pem = request_renewal(enroller, make_renewal_request(self._directory), identity)
        install_certificate(self._directory, pem, f"the certificate from the enroller at {enroller}")

    def _record_time(self, now: datetime) -> None:
        try:
            self._floor.check(now)
            self._floor.record(now)
        except IdentityError as error:
            _log.warning("clock-behind %s", error)

    def _read_stamps(self) -> tuple[Stamp, dict[Path, Stamp]]:
        return _compute_stamp(self._directory), {file: _compute_stamp(file) for file in self._callbacks}

    @staticmethod
    def _request_interval(identity: Identity) -> timedelta:
        """Return the pause between requests to an enroller, which may be offline; shorter for short lifetimes."""
        return min(_REQUEST_INTERVAL, (identity.not_after - identity.not_before) / 50)


def _have_same_certificates(first: Identity, second: Identity) -> bool:
    return (first.tls_cert_pem, first.ca_pem) == (second.tls_cert_pem, second.ca_pem)


def overdue_warning(identity: Identity, now: datetime) -> str:
    """Return the warning for the operator of a device whose certificate was not renewed in time."""
    if now >= identity.not_after:
        return (
            f"this device's certificate expired on {identity.not_after:%Y-%m-%d %H:%M} UTC, and peers refuse it; "
            "renew it with `sottovoce fleet renew`, and the agent will resume"
        )
    return (
        f"this device's certificate is overdue for renewal and expires on {identity.not_after:%Y-%m-%d %H:%M} "
        "UTC; renew it with `sottovoce fleet renew` (the agent continues to work until then)"
    )


def _compute_stamp(path: Path) -> Stamp:
    """Return a stamp that changes when a file, or any file below a directory, is replaced; drafts are ignored."""
    try:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if not file.name.startswith(".")]
        stats = [(file, file.stat()) for file in sorted(files)]
    except OSError:  # a file has disappeared in the meantime; the next check detects this
        return ()
    return tuple((file.name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for file, stat in stats)
