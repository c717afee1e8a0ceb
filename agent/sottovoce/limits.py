"""The limits that the system sets a process, and what to do when one of them is reached."""

import errno
import resource

from sottovoce.errors import ConfigError

_FEWEST_FILES = 64
_LEAST_ADDRESS_SPACE = 2**29
_FILES_REMEDY = "raise it to at least 1024 (`ulimit -n 1024`, or LimitNOFILE=1024 in a systemd unit)"
_MEMORY_REMEDY = (
    "remove it (`ulimit -v unlimited`, or LimitAS=infinity in a systemd unit), and limit memory with MemoryMax= instead"
)


def check_limits() -> None:
    """Check the limits under which an agent or a vault could not even report what it lacks.

    Libraries reserve much more address space than they use, and end the process if they do not get it.

    Raises:
        ConfigError: if a limit is too low.
    """
    files, address_space = _soft_limit(resource.RLIMIT_NOFILE), _soft_limit(resource.RLIMIT_AS)
    if files is not None and files < _FEWEST_FILES:
        raise ConfigError(f"this process may open only {files} files (RLIMIT_NOFILE), too few: {_FILES_REMEDY}")
    if address_space is not None and address_space < _LEAST_ADDRESS_SPACE:
        raise ConfigError(
            f"the address space of this process is limited to {address_space // 2**20} MiB (RLIMIT_AS), but it needs "
            f"{_LEAST_ADDRESS_SPACE // 2**20}: {_MEMORY_REMEDY}"
        )


def describe_shortage(error: BaseException) -> str | None:
    """Return which limit an error is about, and the remedy; None if it is about no limit."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EMFILE:
        return (
            f"all {_soft_limit(resource.RLIMIT_NOFILE)} files that this process may open (RLIMIT_NOFILE) are in use: "
            f"{_FILES_REMEDY}"
        )
    if number == errno.ENFILE:
        return "the machine has no file descriptors left: stop what holds them, or raise fs.file-max"
    if number in (errno.ENOMEM, errno.ENOBUFS) or isinstance(error, MemoryError):
        address_space = _soft_limit(resource.RLIMIT_AS)
        if address_space is not None:
            return (
                f"not enough memory: the address space of this process is limited to {address_space // 2**20} MiB "
                f"(RLIMIT_AS): {_MEMORY_REMEDY}"
            )
        return "not enough memory: check the limit of this process (MemoryMax=), and what other programs use"
    return None


def _soft_limit(kind: int) -> int | None:
    """Return a limit of this process; None if there is none."""
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft
