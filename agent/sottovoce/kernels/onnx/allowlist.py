"""Graphs that a vault may load: bundled graphs with a known hash, and graphs that the owner lists.

A graph determines which values leave the vault, and an unchecked graph could omit clipping. Graphs are therefore
identified by hash rather than by name or location. The file is read only once, so the bytes that are hashed are the
bytes that are loaded.
"""

import hashlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.errors import ConfigError

STOCK = Path(__file__).parent / "stock"
"""Folder that contains each model's declaration NAME.toml and the graph NAME.onnx built from it."""

HASHES = STOCK / "SHA256SUMS"
"""File that lists the graph hashes, one per line, in the format of `sha256sum`."""

SUFFIX = ".onnx"
MAX_BYTES = 64 * 2**20
_NOT_A_GRAPH = "specify a file made by `sottovoce model build`"


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph file that may be loaded.

    Attributes:
        origin: the graph's name in the configuration.
        digest: the model's SHA-256, in hexadecimal.
        model: the file content.
    """

    origin: str
    digest: str
    model: bytes = field(repr=False)


def is_graph(name: str) -> bool:
    """Return whether a name refers to a graph model, which is bundled with the package or loaded from a file."""
    return name.endswith(SUFFIX) or name in stock_hashes()


def stock_hashes() -> dict[str, str]:
    """Return the hexadecimal SHA-256 of each bundled graph, keyed by model name."""
    if not HASHES.exists():
        return {}
    lines = (line.split() for line in HASHES.read_text(encoding="ascii").splitlines())
    return {file.removesuffix(SUFFIX): digest for digest, file in lines}


def allowed_graph(name: str, graphs: Sequence[str]) -> Graph:
    """Read a graph and check that it may be loaded.

    Args:
        name: the name of a bundled graph, or the path of a file that ends in `.onnx`.
        graphs: `sha256:HEX` for each additional graph that may be loaded.

    Raises:
        ConfigError: if the file cannot be read, is too large, has changed, or is not on the list of allowed graphs.
    """
    stock = stock_hashes()
    path = STOCK / f"{name}{SUFFIX}" if name in stock else Path(name)
    model = _read(path, name)
    digest = hashlib.sha256(model).hexdigest()
    if name in stock and digest != stock[name]:
        raise ConfigError(f"learner.model: {path} has changed since it was installed: reinstall sottovoce")
    if name not in stock and f"sha256:{digest}" not in {listed.lower() for listed in graphs}:
        raise ConfigError(
            f"learner.model: {name} is not on the list of graphs that the vault may load: if you trust it, set "
            f'graphs = ["sha256:{digest}"] under [vault]'
        )
    return Graph(name, digest, model)


def graph_digest(name: str) -> str:
    """Return a graph file's `sha256:HEX`, as it appears in the list of allowed graphs.

    Raises:
        ConfigError: if the file cannot be read, or is too large.
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
