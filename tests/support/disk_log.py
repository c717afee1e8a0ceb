"""Logs of a program's operations on the files of one directory, in order, readable by another process."""

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["create", "write", "truncate", "sync", "rename", "delete", "sync names", "mark"]


@dataclass(frozen=True, slots=True)
class Operation:
    """Single operation on the files of the directory.

    Attributes:
        kind: `create`, `rename` and `delete` change names, which `sync names` makes durable; `write` and `truncate`
            change a file's content, which its `sync` makes durable; `mark` is a remark of the program.
        name: name of the file, or the remark.
        place: offset of a write, new length of a truncation.
        data: bytes written, or the subject of the remark.
        target: new name of a renamed file.
    """

    kind: Kind
    name: str
    place: int = 0
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
