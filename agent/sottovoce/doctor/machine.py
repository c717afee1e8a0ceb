"""Checks of the machine: processor, packages, model, memory, disk and clock."""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sottovoce.config import AgentConfig
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.fleet.clock import NAME, UNSYNCHRONISED, ClockFloor, is_synchronised, kernel_clock
from sottovoce.fleet.files import read
from sottovoce.fleet.identity import TLS_CERTIFICATE
from sottovoce.fleet.verification import decode_certificate
from sottovoce.learning.model_names import has_graph
from sottovoce.node.state_directory import state_files
from sottovoce.node.vault_session import runnable_family

_TESTED_PROCESSORS = {"x86_64", "aarch64", "arm64"}


def machine(
    subject: Subject, processor: str = platform.machine(), is_64_bit: bool = sys.maxsize > 2**32
) -> Iterator[Finding]:
    """Check that Sottovoce supports this machine.

    Args:
        subject: not used.
        processor: name of the processor, as reported by the system.
        is_64_bit: whether Python is a 64-bit build.
    """
    summary = f"Python {platform.python_version()} on {processor}, {platform.system()}"
    if not is_64_bit:
        yield warning(
            f"{summary}, 32-bit",
            "install a 64-bit system: Sottovoce's dependencies are not packaged for 32-bit systems",
        )
    elif processor not in _TESTED_PROCESSORS:
        yield warning(summary, "Sottovoce has not been tested on this processor: run `make test` on it first")
    else:
        yield ok(summary)


CORE = ("aiomqtt", "cryptography", "google.protobuf", "grpc", "msgspec", "numpy", "rich", "tomlkit", "typer")


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional package that some configurations require.

    Attributes:
        module: name under which the package is imported.
        extra: name of the extra that installs the package.
        key: configuration key that requires the package.
        is_required: function that returns whether a configuration requires the package.
        code: exit code of an agent if the package is missing.
    """

    module: str
    extra: str
    key: str
    is_required: Callable[[AgentConfig], bool]
    code: ExitCode = ExitCode.CONFIGURATION


EXTRAS = (
    Extra("zeroconf", "discovery", "membership.mdns", lambda config: config.membership.mdns),
    Extra("dns", "discovery", "membership.dns", lambda config: config.membership.dns is not None),
    Extra("prometheus_client", "metrics", "observe.metrics", lambda config: config.observe.metrics is not None),
    Extra("onnxruntime", "onnx", "learner.model", lambda config: has_graph(config.learner.chosen_model)),
    Extra(
        "sklearn",
        "demo",
        "data.source",
        lambda config: config.data.source.partition("#")[0] in ("digits", "breast-cancer"),
        ExitCode.DATA,
    ),
)


def is_installed(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def packages(subject: Subject, has_module: Callable[[str], bool] = is_installed) -> Iterator[Finding]:
    """Check that all required packages are installed."""
    missing = [name for name in CORE if not has_module(name)]
    if missing:
        yield problem(
            f"not installed: {', '.join(missing)}",
            "this installation is incomplete; reinstall Sottovoce",
            ExitCode.CONFIGURATION,
        )
    required = [] if subject.config is None else [extra for extra in EXTRAS if extra.is_required(subject.config)]
    for extra in required:
        if not has_module(extra.module):
            yield problem(
                f"{extra.key} requires the package {extra.module}, which is not installed",
                f"pip install 'sottovoce[{extra.extra}]'",
                extra.code,
            )
            missing.append(extra.module)
    if not missing:
        extras = f", and {', '.join(extra.module for extra in required)}" if required else ""
        yield ok(f"installed: all {len(CORE)} required packages{extras}")


_MAX_DEVICES = 1000  # warn if more devices are needed; owners of larger fleets are assumed to have planned for this


def model(subject: Subject) -> Iterator[Finding]:
    """Check that an agent could start with this model, transform, data and budget. Does not read any record.

    Raises:
        SottovoceError: if the agent would end with this error.
    """
    if subject.config is None:
        return
    family, learner = runnable_family(subject.config), subject.config.learner
    signal = family.signal()
    if signal is not None and (signal.inert or signal.devices > _MAX_DEVICES):
        yield warning(
            f"inert: {signal.summary}",
            "use a larger privacy.epsilon, a smaller privacy.unit or fewer learner.steps: `sottovoce privacy explain` "
            "shows the effect",
        )
    yield ok(f"{learner.chosen_model} with {learner.name}, {family.model.size:,} parameters: runs here")


_MIB = 2**20
_MIN_BYTES = 96 * _MIB  # an idle agent with a linear model uses 80 MiB
_COMFORTABLE_BYTES = 160 * _MIB


def memory(subject: Subject, root: Path = Path("/")) -> Iterator[Finding]:
    """Check that there is enough memory for an agent, or that the running agent leaves some free.

    Args:
        subject: the device.
        root: directory that contains /proc and /sys.
    """
    amounts = {"on this machine": available_memory(root), "in this control group": allowed_memory(root)}
    known_amounts = {source: amount for source, amount in amounts.items() if amount is not None}
    if not known_amounts:
        yield ok("this system does not report how much memory is free")
        return
    source, amount = min(known_amounts.items(), key=lambda item: item[1])
    summary = f"{amount / _MIB:,.0f} MiB left {source}"
    if subject.status is not None:
        summary += f", besides the {subject.status['resources']['rss_mib']:.0f} MiB that the agent uses"
    if subject.status is None and amount < _MIN_BYTES:
        yield problem(
            f"{summary}; an agent requires {_MIN_BYTES // _MIB} MiB",
            "stop other programs, raise the limit (systemd: MemoryMax=), or use a larger machine",
            ExitCode.CONFIGURATION,
        )
    elif amount < (_COMFORTABLE_BYTES if subject.status is None else _MIB * 16):
        yield warning(summary, "stop other programs, or raise the limit: an agent that runs out of memory is killed")
    else:
        yield ok(summary)


def available_memory(root: Path) -> int | None:
    """Return the kernel's estimate of the memory available to programs, in bytes; None if unknown."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else int(kib) * 1024


def allowed_memory(root: Path) -> int | None:
    """Return the memory that this process's tightest control group still allows, in bytes; None without a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    amounts = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base = root / "sys/fs/cgroup" / controllers
        limit, used = ("memory.max", "memory.current") if not controllers else _VERSION_1_FILES
        group_directory = base / group.strip("/")
        for directory in (group_directory, *group_directory.parents):
            amounts.append(_remaining_bytes(directory / limit, directory / used))
            if directory == base:
                break
    return min((amount for amount in amounts if amount is not None), default=None)


_VERSION_1_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _remaining_bytes(limit: Path, used: Path) -> int | None:
    try:
        text = limit.read_text().strip()
        return max(0, int(text) - int(used.read_text())) if text.isdecimal() else None
    except (OSError, ValueError):
        return None


_MIN_FREE_BYTES = 8 * _MIB
_BYTES_PER_DAY = 64 * _MIB  # default of ledger.bytes_per_day, the maximum that a ledger writes in a day
_SLOW_SECONDS = 1.0
_SPACE_REMEDY = "free up disk space, or move agent.state to a larger disk"


def time_write(directory: Path) -> float:
    """Write a small unnamed file, wait until it is on the disk, and return the elapsed seconds."""
    start = time.monotonic()
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - start


def disk(
    subject: Subject,
    statvfs: Callable[[Path], os.statvfs_result] = os.statvfs,
    write: Callable[[Path], float] = time_write,
) -> Iterator[Finding]:
    """Check that there is enough free space, and that a write succeeds quickly."""
    if subject.state is None or not subject.is_readable:
        return
    state, system = subject.state, statvfs(subject.state)
    if system.f_flag & os.ST_RDONLY:
        yield problem(
            f"{state}: the disk is mounted read-only, so charges cannot be stored",
            "mount it read-write; if the kernel made it read-only because of errors, check the disk (dmesg)",
            ExitCode.PRIVACY,
        )
        return
    free_bytes = system.f_bavail * system.f_frsize
    daily_bytes = _BYTES_PER_DAY if subject.config is None else subject.config.ledger.bytes_per_day
    summary = f"{state}: {free_bytes / _MIB:,.0f} MiB free"
    if free_bytes < _MIN_FREE_BYTES:
        yield problem(f"{summary}, but an agent requires {_MIN_FREE_BYTES // _MIB} MiB", _SPACE_REMEDY, ExitCode.DATA)
    elif system.f_files and not system.f_favail:
        yield problem(f"{state}: no more files can be created there (no inodes left)", _SPACE_REMEDY, ExitCode.DATA)
    elif free_bytes < daily_bytes:
        yield warning(f"{summary}; a ledger may write {daily_bytes / _MIB:,.0f} MiB in a day", _SPACE_REMEDY)
    else:
        yield ok(summary)
    try:
        seconds = write(state)
    except OSError as error:
        yield problem(
            f"{state}: cannot write a file there ({error.strerror})",
            "make the agent's user the directory's owner; if it already is, free up disk space, or replace the disk",
            ExitCode.DATA,
        )
        return
    if seconds > _SLOW_SECONDS:
        yield warning(
            f"{state}: a small write took {seconds:.1f} s to reach the disk, and every release waits for two writes",
            "the memory card may be worn or slow: replace it, or move agent.state to another disk",
        )
    else:
        yield ok(f"{state}: writes reach the disk")


_REMEDY = "set the clock from the network (`timedatectl set-ntp true`), or install a real-time clock"


def clock(subject: Subject, kernel: Callable[[], int] = kernel_clock) -> Iterator[Finding]:
    """Check that the clock is synchronised, has not been set back, and is past the certificate's start of validity."""
    current_time = f"{subject.now:%Y-%m-%d %H:%M} UTC"
    match kernel():
        case code if code == UNSYNCHRONISED:
            yield warning(f"the clock shows {current_time}, but is not synchronised", _REMEDY)
        case code if code < 0:
            yield ok(f"the clock shows {current_time}; this kernel does not report whether it is synchronised")
        case _:
            yield ok(f"the clock shows {current_time} and is synchronised")
    if subject.state is None or not subject.is_readable:
        return
    ClockFloor(subject.state / NAME, lambda: is_synchronised(kernel)).check(subject.now)
    path = state_files(subject.state)[0] / TLS_CERTIFICATE
    try:
        valid_from = decode_certificate(read(path), path).not_valid_before_utc
    except IdentityError:
        return  # the next check reports this error
    if subject.now < valid_from:
        yield problem(
            f"the clock shows {current_time}, before this device's certificate is valid ({valid_from:%Y-%m-%d %H:%M})",
            _REMEDY,
            ExitCode.IDENTITY,
        )
