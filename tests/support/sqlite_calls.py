"""C interface between SQLite and the file system, as far as a recorder needs it (sqlite.org/vfs.html).

The structures are those of sqlite3.h; SQLite guarantees their layout, which has only ever grown at the end.
"""

import ctypes
import sqlite3  # the recorder looks up this module's library
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path

OK = 0
OPEN_CREATE = 0x4

Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
Sync = CFUNCTYPE(c_int, c_void_p, c_int)
Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)  # SQLite owns the path: files point to it
Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
OpenDirectory = CFUNCTYPE(c_int, c_char_p, POINTER(c_int))
SetSystemCall = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
GetSystemCall = CFUNCTYPE(c_void_p, c_void_p, c_char_p)


class Methods(Structure):
    """sqlite3_io_methods: operations on an open file."""

    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", Write),
        ("truncate", Truncate),
        ("sync", Sync),
        *((name, c_void_p) for name in ("file_size", "lock", "unlock", "check_lock", "control", "sector", "traits")),
        *((name, c_void_p) for name in ("shm_map", "shm_lock", "shm_barrier", "shm_unmap", "fetch", "unfetch")),
    ]


class OpenFile(Structure):
    """sqlite3_file: the bytes after this structure belong to the file system."""

    _fields_ = [("methods", POINTER(Methods))]


class FileSystem(Structure):
    """sqlite3_vfs: opening and deletion of files."""

    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", Open),
        ("delete", Delete),
        *((name, c_void_p) for name in ("access", "full_path", "dl_open", "dl_error", "dl_sym", "dl_close")),
        *((name, c_void_p) for name in ("randomness", "sleep", "time", "last_error", "time_64")),
        ("set_system_call", SetSystemCall),
        ("get_system_call", GetSystemCall),
        ("next_system_call", c_void_p),
    ]


def library() -> ctypes.CDLL:
    """Load the SQLite library to which Python's sqlite3 module is linked.

    Raises:
        RuntimeError: if SQLite is not a separate shared library.
    """
    mapped = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    paths = {fields[5] for fields in mapped if len(fields) == 6 and "/libsqlite3.so" in fields[5]}
    if len(paths) != 1:
        raise RuntimeError(
            f"SQLite {sqlite3.sqlite_version} is linked statically into this Python ({len(paths)} libsqlite3.so are "
            "mapped), so its file operations cannot be recorded: run this test with a Python that uses the "
            "system's libsqlite3.so.0, such as Debian's, or one built by pyenv with libsqlite3-dev"
        )
    result = ctypes.CDLL(paths.pop())
    result.sqlite3_vfs_find.restype = POINTER(FileSystem)
    result.sqlite3_vfs_find.argtypes = [c_char_p]
    result.sqlite3_vfs_register.argtypes = [POINTER(FileSystem), c_int]
    return result
