"""The separate vault's process, built from the agent's configuration file, which the agent cannot change.

Irrevocable confinement of a separate vault process: its memory is hidden, and it cannot use the network.

Only root can access the process's memory (prctl(2), PR_SET_DUMPABLE): other processes of the same user cannot trace the
process or read its /proc/PID/mem, and no core file is written. A system-call filter (seccomp(2)) makes the creation of
any socket other than a Unix socket fail.
"""

import contextlib
import ctypes
import errno
import logging
import os
import pwd
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget, try_graph
from sottovoce.config import AgentConfig
from sottovoce.data import parse
from sottovoce.errors import ConfigError, ExitCode, SottovoceError, TaskRefused
from sottovoce.node.faults import (
    ALIVE,
    READY,
    STOPPING,
    STUCK_SECONDS,
    FaultBackoff,
    classify_fault,
    notify_manager,
    ping_interval,
    unrecoverable_disk_error,
)
from sottovoce.node.local_vault import LEDGER, make_no_task_check, make_vault
from sottovoce.node.own_task import build_task, declared_ranges
from sottovoce.plugins import plugin_errors
from sottovoce.privacy.rpc.server import ServedVault, VaultServer, listening_socket
from sottovoce.privacy.vault import Ledger
from sottovoce.storage.durable import is_read_only

if TYPE_CHECKING:
    from sottovoce.fleet.authority import Authority

_log = logging.getLogger(__name__)
_MAX_PAUSE_SECONDS = 30.0  # a transient fault while the vault serves is reported to its caller instead
_RECOVERED_AFTER_SECONDS = 60.0  # run time after which the previous fault counts as resolved
_SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 4, 22, 38
_FILTER = 2
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_UNIX, _IO_URING, _X32 = 1, 425, 0x40000000
_MACHINES = {  # audit architecture, number of socket(2)
    "x86_64": (0xC000003E, 41),
    "aarch64": (0xC00000B7, 198),
    "armv7l": (0x40000028, 281),
    "riscv64": (0xC00000F3, 198),
}


def serve_vault(config: AgentConfig, file: Path) -> ExitCode:
    """Serve the vault of a configuration until SIGTERM or Ctrl-C.

    Args:
        config: the configuration, as read from `file`.
        file: the configuration file. If the agent runs as another user, that user must not be able to change it.

    Returns:
        DONE after SIGTERM, INTERRUPTED after Ctrl-C; the answer in progress is finished first.

    Raises:
        SottovoceError: if anything is missing, corrupt or impossible; nothing was served.
    """
    user = _find_user_id(config.vault.agent_user)
    if user == os.getuid():
        _log.warning("same-user the agent can read the records and the ledger directly; set vault.agent_user")
    hide_memory()
    if not forbid_network():
        _log.warning(
            "network-not-forbidden this machine's system call numbers are unknown, so the vault cannot block its own "
            "network access; configure the service manager to block it"
        )
    backoff, directory = FaultBackoff(_MAX_PAUSE_SECONDS), config.vault.directory
    while True:
        started_at = time.monotonic()
        try:
            if (code := _serve_until_stopped(config, file, user)) is not None:
                return code
            backoff.reset()
        except (SottovoceError, OSError, MemoryError, RuntimeError) as error:
            fault = classify_fault(error, has_worked=directory is not None and is_read_only(directory))
            if fault is None or fault.needs_a_person:
                raise
            if time.monotonic() - started_at > _RECOVERED_AFTER_SECONDS:
                backoff.reset()
            pause = backoff.next_delay(fault)
            disk_error = None if directory is None else unrecoverable_disk_error(directory)
            if disk_error is not None:
                pause = STUCK_SECONDS
            notify_manager(ALIVE, f"STATUS={fault.summary}")
            time.sleep(pause)
            if disk_error is not None:
                raise disk_error from error


@plugin_errors()
def _serve_until_stopped(config: AgentConfig, file: Path, user: int) -> ExitCode | None:
    """Serve until stopped; return None if another task was activated, so the vault must be rebuilt."""
    path, directory = config.vault.socket, config.vault.directory
    if path is None or directory is None:
        raise ConfigError(f"{file}: vault.socket or vault.directory is missing; set both for a separate vault")
    ledger_file = directory / LEDGER
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(_stop_signal_socket())
        if user != os.getuid():
            _check_access(config, file, ledger_file, user)
        owner = _read_ledger_owner(ledger_file)
        ledger = Ledger.open(ledger_file, owner, required_budget(config))
        stack.callback(ledger.close)
        own_config, mandate, closing_reason = config, ledger.mandate, make_no_task_check(config.vault)
        if mandate is not None:
            # Imported late to save memory in a vault without tasks.
            from sottovoce.node.task_activator import active_configuration, make_closed_reason

            config = active_configuration(own_config, ledger)
            closing_reason = make_closed_reason(
                config.vault, ledger, directory, time.time, algorithm=config.learner.name, cell=config.cell
            )
        try_graph(config)
        family = build_family(config)
        verify_member = None
        if config.cell is not None:
            from sottovoce.node.gossip.revocation_store import StoredRevocations
            from sottovoce.node.provenance import MemberVerifier  # imported late: saves memory without a cell

            authority = _load_authority(directory)
            verify_member = MemberVerifier(
                authority, build_task(config).digest, StoredRevocations(directory, authority)
            ).verify
        vault = make_vault(config, family, ledger, closing_reason=closing_reason, verify_member=verify_member)
        stack.callback(vault.close)
        service = ServedVault(
            vault,
            owner,
            ledger.own_budget,
            user,
            2 * family.model.size,  # a point is a model and at most as many further numbers
            declared_ranges(config.data),
            b"" if mandate is None else mandate.document,
            lambda document: _activate_task(own_config, ledger, directory, document),
        )
        server = VaultServer(service)
        listener = stack.enter_context(listening_socket(path, shared=user != os.getuid()))
        _log.info("ready owner=%s socket=%s", owner, path)
        notify_manager(READY, f"STATUS=serving device {owner}")
        if server.run(listener, stop, alive=lambda: notify_manager(ALIVE), every=ping_interval()):
            return None
        notify_manager(STOPPING)
        _log.info("stopped owner=%s", owner)
        return ExitCode.INTERRUPTED if stop.recv(1)[0] == signal.SIGINT else ExitCode.DONE


def _activate_task(config: AgentConfig, ledger: Ledger, directory: Path, document: bytes) -> None:
    """Activate a task under the authority in the vault directory; see sottovoce.node.task_activator."""
    from sottovoce.node.task_activator import TaskActivator

    TaskActivator(config, ledger, directory, lambda: _load_authority(directory))(document)


def _load_authority(directory: Path) -> "Authority":
    """Return the authority of the fleet whose certificate is in the vault directory."""
    from sottovoce.fleet.identity import FLEET_CERTIFICATE, fleet_authority

    if not (directory / FLEET_CERTIFICATE).exists():
        raise TaskRefused("the vault does not have a fleet certificate; copy the fleet's ca.pem into vault.directory")
    return fleet_authority(directory)


def _check_access(config: AgentConfig, file: Path, ledger_file: Path, user: int) -> None:
    """Check that the agent's user can neither read the records nor change what the vault relies on."""
    try:
        _check_writers(file, user)
        _check_writers(ledger_file, user)
        if config.vault.policy is not None:
            _check_writers(config.vault.policy, user)
        if (records := parse(config.data.source).path) is not None:
            _check_readers(records, user)
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: the vault cannot check who may access this path ({error.strerror}); make the vault's "
            "user the owner of its directory, and mount its disk"
        ) from error


def _check_readers(path: Path, user: int) -> None:
    """Check that the modes of files and directories prevent the agent's user from reading or changing the records."""
    _check_writers(path, user)
    for ancestor in (ancestor for ancestor in (path.resolve(), *path.resolve().parents) if ancestor.exists()):
        required_bit = stat.S_IROTH if ancestor.is_file() else stat.S_IXOTH
        if not ancestor.stat().st_mode & required_bit:
            return
    raise ConfigError(
        f"data.source: {path}: the agent runs as user {user}, who could read these records without the vault; "
        "run chmod o-r on the file, and make the vault's user its owner"
    )


def _read_ledger_owner(path: Path) -> str:
    ledger = Ledger.read(path)
    ledger.close()
    return ledger.owner


def _find_user_id(user: str | None) -> int:
    """Return the numeric id of the user that may query the vault."""
    if user is None:
        return os.getuid()
    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError as error:
        raise ConfigError(
            f"vault.agent_user: there is no user `{user}`; specify an existing user's name or number"
        ) from error


def _check_writers(path: Path, user: int) -> None:
    """Check that the agent's user cannot change a file or any directory on the path to it.

    Anyone who can write the configuration controls the data, the clip norm and the noise. Anyone who can replace the
    ledger with another one gets a new budget.
    """
    for file in (path.absolute(), path.resolve()):
        for ancestor in (ancestor for ancestor in (file, *file.parents) if ancestor.exists()):
            mode, owner = ancestor.stat().st_mode, ancestor.stat().st_uid
            if owner == user or (mode & 0o022 and not mode & stat.S_ISVTX):
                raise ConfigError(
                    f"{ancestor}: the agent runs as user {user}, who could change this path and thereby "
                    f"replace {path}; make root or the vault's user the owner, and remove write access for others "
                    "(chmod go-w)"
                )


@contextlib.contextmanager
def _stop_signal_socket() -> Iterator[socket.socket]:
    """Yield a socket from which the number of the first stop signal can be read."""
    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        try:
            yield receiver
        finally:
            signal.set_wakeup_fd(-1)


def hide_memory() -> None:
    """Hide this process's memory from everyone except root.

    Raises:
        ConfigError: if the kernel refuses.
    """
    _prctl(_SET_DUMPABLE, 0)


def forbid_network() -> bool:
    """Prevent this process and its children from opening sockets other than Unix sockets.

    Returns:
        Whether the filter is installed: False on an architecture whose system-call numbers are not in the table.

    Raises:
        ConfigError: if the kernel refuses.
    """
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return False
    architecture, socket = machine
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),  # system-call numbers differ between architectures
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 5, 0, _X32),
        (_IF_EQUAL, 4, 0, _IO_URING),  # io_uring opens sockets without socket(2)
        (_IF_EQUAL, 0, 2, socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IF_EQUAL, 0, 1, _UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    ]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(instructions)))
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)
    _prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(header))
    return True


def _prctl(option: int, value: int, pointer: int = 0) -> None:
    process = ctypes.CDLL(None, use_errno=True)
    if process.prctl(option, *map(ctypes.c_ulong, (value, pointer, 0, 0))):
        reason = os.strerror(ctypes.get_errno())
        raise ConfigError(
            f"vault: the kernel does not allow the vault's process to confine itself (prctl {option}: {reason}): "
            "run the vault on a Linux kernel that supports and permits seccomp filters"
        )
