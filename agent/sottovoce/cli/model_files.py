"""What the commands of `sottovoce model` share: the extra that they need, and files that are whole or not there."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sottovoce.durable import rename
from sottovoce.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from sottovoce.models.checks import GraphFile


def require_models() -> None:
    """Refuse where the extra is missing, before anything is read.

    Raises:
        ConfigError: says what to install.
    """
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"this needs {' and '.join(missing)}: on a workstation, pip install 'sottovoce[models]' and give the same "
            "command there; a device runs its model without"
        )


def put(option: str, path: Path, raw: bytes, mode: int = 0o666) -> None:
    """Write a file under its name once all of it is on the disk; into a pipe or a device, as /dev/stdout, at once.

    Args:
        option: that named it.
        path: of the file.
        raw: what is to be in it.
        mode: of the file, less what the umask takes.

    Raises:
        UsageError: it cannot be written; a file that was there is as it was.
    """
    target = path.resolve()  # a link stays one
    draft = target.with_name(f"{target.name}.new")
    try:
        if path.exists() and not path.is_file():  # a name of the system, which a file must not take
            path.write_bytes(raw)
            return
        draft.unlink(missing_ok=True)
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(raw)
        rename(draft, target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{option} {path}: cannot be written ({error.strerror})") from error


def graph_of(name: str) -> "GraphFile":
    """The checked graph of a model's name or of a file.

    Raises:
        ConfigError: there is none, or it is not to be trusted.
    """
    from sottovoce.kernels.onnx.allowed import STOCK, SUFFIX, stock_hashes
    from sottovoce.models.checks import graph_file

    if name in stock_hashes():
        return graph_file(STOCK / f"{name}{SUFFIX}")
    if not name.endswith(SUFFIX):
        raise ConfigError(f"{name}: no such model; name {', '.join(stock_hashes())}, or a file that ends in {SUFFIX}")
    return graph_file(Path(name))


def show_facts(facts: dict[str, Any]) -> None:
    """Print facts, one a line, a list one entry a line."""
    for key, value in facts.items():
        for one in value if isinstance(value, list) else [value]:
            typer.echo(f"{key:12} {one}")
