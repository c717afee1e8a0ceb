"""How often databases commit: each time, SQLite waits until the disk has it."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER")


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the commits to all databases that are opened meanwhile, by the name of their directory."""
    commits: Counter[str] = Counter()
    connect = sqlite3.connect

    def watched(path: Any, *args: Any, **keywords: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(path, *args, **keywords)
        owner = Path(str(path).removeprefix("file:").split("?")[0]).parent.name

        def executes(statement: str) -> None:
            verb = statement.lstrip().split(maxsplit=1)[0].upper()
            if verb == "COMMIT" or (verb in _WRITES and not connection.in_transaction):
                commits[owner] += 1

        connection.set_trace_callback(executes)
        return connection

    with patch.object(sqlite3, "connect", watched):
        yield commits
