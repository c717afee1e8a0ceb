"""Extract every logging call from the source code, with its level and event name."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.sources import ROOT, sources

_LEVELS = ("debug", "info", "warning", "error", "exception", "critical")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One logging call.

    Attributes:
        event: first word of the line's text; None if the text is an argument.
        level: level, as named in the configuration.
        where: file and line of the call.
    """

    event: str | None
    level: str
    where: str


@cache
def log_lines() -> tuple[LogLine, ...]:
    """Return every call that logs."""
    return tuple(line for file in sources() for line in _of(file))


def _of(file: Path) -> Iterator[LogLine]:
    text = file.read_text(encoding="utf-8")
    if not any(sign in text for sign in ("_log.", "_note(")):
        return
    tree = ast.parse(text)
    named = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = _level_and_text(file, node.func, node.args)
            if called is not None:
                level, message = called
                if isinstance(message, ast.Name):
                    message = named.get(message.id, message)
                words = (
                    message.value.split()
                    if isinstance(message, ast.Constant) and isinstance(message.value, str)
                    else []
                )
                event = words[0].rstrip(":") if words and "%" not in words[0] else None
                yield LogLine(event, level, f"{file.relative_to(ROOT)}:{node.lineno}")


def _level_and_text(file: Path, called: ast.Attribute, arguments: list[ast.expr]) -> tuple[str, ast.expr] | None:
    """Read `_log.warning(text, …)`, `….log(logging.WARNING, cause, text, …)` or the vault server's `_log_event(…)`."""
    if called.attr in _LEVELS and isinstance(called.value, ast.Name) and called.value.id == "_log":
        return called.attr, arguments[0]
    if called.attr == "log" and len(arguments) >= 3 and isinstance(arguments[0], ast.Attribute):
        return arguments[0].attr.lower(), arguments[2]
    if called.attr == "_log_event" and file.match("rpc/server.py"):
        return "warning", arguments[0]
    return None
