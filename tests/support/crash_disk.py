"""Simulate a disk's contents after a power cut: the durable part, plus some of the unsynced changes.

A file's content is durable up to its last sync, and a directory's names are durable up to the directory's last sync.
Each later write may or may not survive, regardless of the order of writes. Later name changes survive only up to some
point, because file systems journal them in order. One write may be torn: at a 512-byte sector boundary on any disk, or
at any byte on a bad disk.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.support.disk_log import Operation

Image = dict[str, bytes]  # contents by name
SECTOR = 512
EVERYTHING, NOTHING = "everything unsynced was kept", "everything unsynced was lost"


@dataclass(eq=False, slots=True)
class _File:
    durable: bytearray = field(default_factory=bytearray)


Change = tuple[_File, Operation]


@dataclass(frozen=True, slots=True)
class Crash:
    """A power cut. Call `image` before the disk performs further operations.

    Attributes:
        description: the changes that survived, for failure messages.
        names: files that exist afterwards, by name.
        changes: the unsynced changes of contents that were kept.
    """

    description: str
    names: dict[str, _File]
    changes: Sequence[Change]

    def image(self) -> Image:
        """Return the contents of the disk afterwards."""
        contents = {file: bytearray(file.durable) for file in self.names.values()}
        for file, operation in self.changes:
            if file in contents:
                _change(contents[file], operation)
        return {name: bytes(contents[file]) for name, file in self.names.items()}


class CrashDisk:
    """Disk on which operations are done one by one.

    Args:
        rng: generator that chooses where writes are torn and which parts of many are kept.

    Attributes:
        syncs: number of syncs so far.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.syncs = 0
        self._durable_names: dict[str, _File] = {}
        self._names: dict[str, _File] = {}
        self._changes: list[Change] = []  # changes of contents, not yet durable
        self._renames: list[dict[str, _File]] = []  # names after each change of names that is not yet durable

    def do(self, operation: Operation) -> None:
        """Do one more operation."""
        match operation.kind:
            case "create":
                self._rename({**self._names, operation.name: _File()})
            case "write" | "truncate":
                self._changes.append((self._names[operation.name], operation))
            case "sync":
                self._sync(self._names[operation.name])
            case "rename":
                rest = {name: file for name, file in self._names.items() if name != operation.name}
                self._rename({**rest, operation.target: self._names[operation.name]})
            case "delete":
                self._rename({name: file for name, file in self._names.items() if name != operation.name})
            case "sync directory":
                self._durable_names, self._renames = self._names, []
                self.syncs += 1

    def whole(self) -> Image:
        """Return the contents of the disk if there is no power cut."""
        return Crash("none", self._names, self._changes).image()

    def crashes(self, coming: Operation) -> Iterator[Crash]:
        """Yield power cuts that happen before the next operation is complete; it may already have begun."""
        yield Crash(EVERYTHING, self._names, self._changes)
        yield Crash(NOTHING, self._durable_names, [])
        for index, names in enumerate([self._durable_names, *self._renames][:-1]):
            yield Crash(f"{index} of {len(self._renames)} name changes were kept", names, self._changes)
        for index, names in enumerate(self._renames, start=1):
            yield Crash(f"{index} name changes and no content changes were kept", names, [])
        if coming.kind == "write":
            yield from self._torn(coming)
        if coming.kind == "sync":
            yield from self._reordered()

    def _torn(self, coming: Operation) -> Iterator[Crash]:
        """Yield power cuts that keep part of the coming write, with all other unsynced changes or with none."""
        length, file = len(coming.data), self._names[coming.name]
        sectors = range(SECTOR - coming.offset % SECTOR, length, SECTOR)
        cuts = [self._rng.choice(sectors)] if sectors else []
        for cut in {*cuts, self._rng.randrange(length) | 1} - {length}:
            first = Operation("write", coming.name, coming.offset, coming.data[:cut])
            last = Operation("write", coming.name, coming.offset + cut, coming.data[cut:])
            where = f"of {length} bytes at {coming.offset} of {coming.name}"
            yield Crash(f"{cut} {where} were written", self._names, [*self._changes, (file, first)])
            yield Crash(f"the first {cut} {where} were not written", self._names, [*self._changes, (file, last)])
            yield Crash(f"{cut} {where} were written, and none before", self._names, [(file, first)])

    def _reordered(self) -> Iterator[Crash]:
        """Yield power cuts that lose each unsynced change, keep each one alone, or keep some subsets of many."""
        count = len(self._changes)
        for index, change in enumerate(self._changes):
            rest = self._changes[:index] + self._changes[index + 1 :]
            yield Crash(f"unsynced change {index} of {count} was lost", self._names, rest)
            yield Crash(f"only unsynced change {index} of {count} was kept", self._names, [change])
        for _ in range(2 if count > 2 else 0):
            stored = sorted(self._rng.sample(range(count), self._rng.randrange(1, count)))
            yield Crash(
                f"unsynced changes {stored} of {count} were kept", self._names, [self._changes[i] for i in stored]
            )

    def _rename(self, names: dict[str, _File]) -> None:
        self._names = names
        self._renames.append(names)

    def _sync(self, file: _File) -> None:
        self.syncs += 1
        for changed, operation in self._changes:
            if changed is file:
                _change(file.durable, operation)
        self._changes = [change for change in self._changes if change[0] is not file]


def _change(content: bytearray, operation: Operation) -> None:
    """Apply a write, filling a gap with zeros as a file system does, or a truncation, which may also lengthen."""
    if operation.kind == "truncate":
        del content[operation.offset :]
        content.extend(bytes(operation.offset - len(content)))
        return
    content.extend(bytes(max(0, operation.offset - len(content))))
    content[operation.offset : operation.offset + len(operation.data)] = operation.data
