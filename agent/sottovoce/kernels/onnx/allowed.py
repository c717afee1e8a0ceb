"""Graphs that a vault may load: those of this package, by the hashes it ships, and those that the owner lists.

A graph determines which values leave the vault: an unchecked one could omit clipping. So a graph is
identified neither by its name nor by its location. The hashed bytes are the loaded bytes: the file is read only once.
"""

import hashlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.errors import ConfigError

STOCK = Path(__file__).parent / "stock"
"""Folder with each model's declaration NAME.toml and the graph NAME.onnx built from it."""

HASHES = STOCK / "SHA256SUMS"
"""File with the hashes of the graphs, one per line, as `sha256sum` writes them."""

SUFFIX = ".onnx"
MAX_BYTES = 64 * 2**20
_NOT_A_GRAPH = "name a file made by `sottovoce model build`"


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph file that may be loaded.

    Attributes:
        origin: its name in the configuration.
        digest: SHA-256 of the model, hexadecimal.
        model: the file's bytes.
    """

    origin: str
    digest: str
    model: bytes = field(repr=False)


def is_graph(name: str) -> bool:
    """Return whether this name refers to a graph model, either bundled with the package or loaded from a file."""
    return name.endswith(SUFFIX) or name in stock_hashes()


def stock_hashes() -> dict[str, str]:
    """Return SHA-256, hexadecimal, of each graph in the package, by the model's name."""
    if not HASHES.exists():
        return {}
    lines = (line.split() for line in HASHES.read_text(encoding="ascii").splitlines())
    return {file.removesuffix(SUFFIX): digest for digest, file in lines}


def allowed_graph(name: str, graphs: Sequence[str]) -> Graph:
    """Read a graph, if it may be loaded.

    Args:
        name: name of a graph in the package, or the path of a file, which ends in `.onnx`.
        graphs: `sha256:HEX` of each other graph that may be loaded.

    Raises:
        ConfigError: if the file does not exist, cannot be a graph, or is not on the list.
    """
    stock = stock_hashes()
    path = STOCK / f"{name}{SUFFIX}" if name in stock else Path(name)
    model = _read(path, name)
    digest = hashlib.sha256(model).hexdigest()
    if name in stock and digest != stock[name]:
        raise ConfigError(f"learner.model: {path} was changed since it was installed: install sottovoce again")
    if name not in stock and f"sha256:{digest}" not in {listed.lower() for listed in graphs}:
        raise ConfigError(
            f"learner.model: {name} is not on the list of graphs that the vault may load: when you trust it, write "
            f'graphs = ["sha256:{digest}"] under [vault]'
        )
    return Graph(name, digest, model)


def digest_of(name: str) -> str:
    """Return `sha256:HEX` of a graph file, for the list.

    Raises:
        ConfigError: if the file does not exist, or cannot be a graph.
    """
    return f"sha256:{hashlib.sha256(_read(Path(name), name)).hexdigest()}"


def _read(path: Path, name: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"learner.model: {name} is not a file: {_NOT_A_GRAPH}")
        with path.open("rb") as file:
            model = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: the path contains a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"learner.model: {name!r} cannot be read ({reason}): {_NOT_A_GRAPH}") from error
    if len(model) > MAX_BYTES:
        raise ConfigError(f"learner.model: {name} is larger than {MAX_BYTES >> 20} MiB: {_NOT_A_GRAPH}")
    return model
