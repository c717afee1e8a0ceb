"""Output helpers shared by several commands: output files, sanitised text, and lines about other tasks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.storage.durable import rename


def check_writable(option: str, path: Path) -> None:
    """Check before a long run that an output file can be written.

    Raises:
        UsageError: if `path` cannot be written as a file.
    """
    directory = path.absolute().parent
    try:
        exists, is_writable = directory.is_dir(), not path.is_dir()
        is_writable = is_writable and os.access(path if path.exists() else directory, os.W_OK)
    except PermissionError:  # this user cannot even read the directory
        exists, is_writable = True, False
    if not exists:
        raise UsageError(f"{option} {path}: no such directory; create it first")
    if not is_writable:
        raise UsageError(
            f"{option} {path}: cannot be written; specify a file in a directory where you have write permission"
        )


def write_text_file(option: str, path: Path, text: str) -> None:
    """Write text to a file, followed by a newline.

    Raises:
        UsageError: if the file cannot be written.
    """
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written ({error.strerror})") from error


def write_binary_file(option: str, path: Path, raw: bytes, mode: int = 0o666) -> None:
    """Write a file and rename it into place once it is complete; write directly to a pipe or device (/dev/stdout).

    Args:
        option: command-line option that specified the file, for the error message.
        path: path of the file.
        raw: contents of the file.
        mode: file mode, before the umask is applied.

    Raises:
        UsageError: if the file cannot be written; an existing file is unchanged.
    """
    target = path.resolve()  # a symbolic link is preserved
    draft = target.with_name(f"{target.name}.new")
    try:
        if path.exists() and not path.is_file():  # a pipe or device, which a file must not replace
            path.write_bytes(raw)
            return
        draft.unlink(missing_ok=True)
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(raw)
        rename(draft, target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{option} {path}: cannot be written ({error.strerror})") from error


def sanitise(text: str) -> str:
    """Return the text with every unprintable character, such as a line end or an escape, replaced by a space."""
    return "".join(character if character.isprintable() else " " for character in text)


def other_task_lines(others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each entry of `task.others` in a status."""
    return [
        f"{group['devices']} device{'' if group['devices'] == 1 else 's'} with another task: "
        + ("; ".join(group["differences"]) or "details are not known yet")
        for group in others
    ]
