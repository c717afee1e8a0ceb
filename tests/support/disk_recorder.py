"""Record this process's file operations in one directory, whether made by SQLite or through functions in `os`.

The recorder wraps SQLite's file access for the whole process and cannot be removed, so it needs a process of its own.
SQLite's write-ahead log index (`-shm`) is not recorded, because it is shared memory, which does not survive a crash.
"""

import os
from collections.abc import Callable
from ctypes import POINTER, c_void_p, cast, pointer, string_at
from pathlib import Path
from typing import Any

from tests.support import sqlite_calls as c
from tests.support.disk_log import Kind, Operation

AnyPath = str | bytes | os.PathLike[str]


class DiskRecorder:
    """Recorder that starts when it is created.

    Args:
        directory: directory whose files are recorded, by their names in it; subdirectories are not recorded.

    Attributes:
        operations: operations recorded so far.
    """

    def __init__(self, directory: Path) -> None:
        self.operations: list[Operation] = []
        self._directory = directory.resolve()
        self._names: dict[int, str] = {}  # names of SQLite's open files, by address
        self._tables: dict[int, c.Methods] = {}  # by the address of the table that each replaces
        self._record_sqlite()
        self._record_os()

    def mark(self, note: str, data: bytes = b"") -> None:
        """Add a note to the log."""
        self.operations.append(Operation("mark", note, data=data))

    def _note(self, kind: Kind, path: AnyPath, offset: int = 0, data: bytes = b"", target: str = "") -> None:
        name = self._name(path)
        if name is not None:
            self.operations.append(Operation(kind, name, offset, data, target))

    def _name(self, path: AnyPath) -> str | None:
        """Return a file's name in the directory; None for a file elsewhere."""
        absolute = Path(os.fsdecode(path)).absolute()
        return absolute.name if absolute.parent.resolve() == self._directory else None

    def _record_sqlite(self) -> None:
        library = c.library()
        self._system = library.sqlite3_vfs_find(None)
        system = self._system.contents
        self._open_directory = c.OpenDirectory(system.get_system_call(self._system, b"openDirectory"))
        self._callbacks = [
            c.Open(self._record_open),
            c.Delete(self._record_delete),
            c.OpenDirectory(self._record_directory_open),
        ]
        system.set_system_call(self._system, b"openDirectory", cast(self._callbacks[2], c_void_p))
        self._recording = c.FileSystem.from_buffer_copy(system)
        self._recording.name = b"recorder"
        self._recording.open, self._recording.delete = self._callbacks[:2]
        library.sqlite3_vfs_register(pointer(self._recording), 1)

    def _record_open(self, vfs: int, address: int | None, file: int, flags: int, found: int | None) -> int:
        path = string_at(address) if address else None  # a null address is a temporary file
        new = path is not None and not _exists(path)
        code = int(self._system.contents.open(vfs, address, file, flags, found))
        if code == c.OK and path is not None:
            opened = cast(file, POINTER(c.OpenFile)).contents
            self._names[file] = os.fsdecode(path)
            opened.methods = pointer(self._recording_table(opened.methods))
            if new and flags & c.OPEN_CREATE:
                self._note("create", path)
        return code

    def _recording_table(self, original: Any) -> c.Methods:
        """Return a copy of a table of methods in which every method that changes a file records the change."""
        address = cast(original, c_void_p).value or 0
        if address not in self._tables:
            methods = c.Methods.from_buffer_copy(original.contents)
            write, truncate, sync = methods.write, methods.truncate, methods.sync

            def record_write(file: int, data: int, length: int, offset: int) -> int:
                self._note("write", self._names[file], offset, string_at(data, length))
                return int(write(file, data, length, offset))

            def record_truncate(file: int, length: int) -> int:
                self._note("truncate", self._names[file], length)
                return int(truncate(file, length))

            def record_sync(file: int, flags: int) -> int:
                code = int(sync(file, flags))
                self._note("sync", self._names[file])
                return code

            table = c.Methods.from_buffer_copy(methods)
            table.write, table.truncate = c.Write(record_write), c.Truncate(record_truncate)
            table.sync = c.Sync(record_sync)
            self._tables[address] = table
        return self._tables[address]

    def _record_delete(self, vfs: int, path: bytes, sync: int) -> int:
        if _exists(path):
            self._note("delete", path)
        return int(self._system.contents.delete(vfs, path, sync))  # SQLite opens the directory if it is to be synced

    def _record_directory_open(self, path: bytes, descriptor: Any) -> int:
        """Record a sync of names: SQLite opens a file's directory only for fsync."""
        code = int(self._open_directory(path, descriptor))
        if self._name(path) is not None:
            self.operations.append(Operation("sync directory", ""))
        return code

    def _record_os(self) -> None:
        def wrap_function(name: str, note: Callable[..., None]) -> None:
            original = getattr(os, name)

            def act(*args: Any, **options: Any) -> Any:
                result = original(*args, **options)
                note(*args)
                return result

            setattr(os, name, act)

        def record_sync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if path == self._directory:
                self.operations.append(Operation("sync directory", ""))
            else:
                self._note("sync", path)

        def record_rename(old: str, new: str) -> None:
            self._note("rename", old, target=Path(new).name)

        wrap_function("fsync", record_sync)
        wrap_function("rename", record_rename)
        wrap_function("replace", record_rename)
        wrap_function("unlink", lambda path: self._note("delete", path))


def _exists(path: bytes) -> bool:
    return Path(os.fsdecode(path)).exists()
