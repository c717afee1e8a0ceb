"""An ordered log of a program's file operations in one directory, stored so that another process can read it."""

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["create", "write", "truncate", "sync", "rename", "delete", "sync directory", "mark"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One file operation in the recorded directory.

    Attributes:
        kind: `create`, `rename` and `delete` change names, which `sync directory` makes durable; `write` and `truncate`
            change a file's content, which its `sync` makes durable; `mark` is a note that the program added to the log.
        name: file name, or the note's text.
        offset: start of a write, or the new length after a truncation.
        data: bytes written, or the data attached to the note.
        target: new name of a renamed file.
    """

    kind: Kind
    name: str
    offset: int = 0
    data: bytes = b""
    target: str = ""


def save(operations: Iterable[Operation], path: Path) -> None:
    """Write the operations to a file, one JSON document per line."""
    with path.open("w") as file:
        for operation in operations:
            file.write(json.dumps({**asdict(operation), "data": base64.b64encode(operation.data).decode()}) + "\n")


def load(path: Path) -> list[Operation]:
    """Read the operations that `save` wrote."""
    with path.open() as file:
        lines = [json.loads(line) for line in file]
    return [Operation(**{**line, "data": base64.b64decode(line["data"])}) for line in lines]
