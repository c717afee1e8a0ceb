"""Irrevocable confinement of a separate vault process: its memory is hidden, and it cannot use the network.

Only root can access the process's memory (prctl(2), PR_SET_DUMPABLE): other processes of the same user cannot trace the
process or read its /proc/PID/mem, and no core file is written. A system-call filter (seccomp(2)) makes the creation of
any socket other than a Unix socket fail.
"""

import ctypes
import errno
import os
import struct

from sottovoce.errors import ConfigError

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
