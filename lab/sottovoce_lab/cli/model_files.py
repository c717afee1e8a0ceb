"""Load model files for the `sottovoce model` commands, and check that the optional packages they need are installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce_lab.models.checks import GraphFile
    from sottovoce_lab.models.inference import Inference


def require_models() -> None:
    """Check that the packages from the extra `models` are installed.

    Raises:
        ConfigError: if a package is missing; the message names the package and the remedy.
    """
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"this command requires {' and '.join(missing)}: run pip install 'sottovoce[models]' on a workstation, and "
            "run the command there; a device does not need them to run its model"
        )


def load_graph(name: str) -> "GraphFile":
    """Read and check a graph, given the name of a bundled model or a file.

    Raises:
        ConfigError: if the graph does not exist or fails a check.
    """
    from sottovoce.kernels.onnx.allowlist import STOCK, SUFFIX, stock_hashes

    from sottovoce_lab.models.checks import graph_file

    if name in stock_hashes():
        return graph_file(STOCK / f"{name}{SUFFIX}")
    if not name.endswith(SUFFIX):
        raise ConfigError(
            f"{name}: no such model; choose one of {', '.join(stock_hashes())}, or a file that ends in {SUFFIX}"
        )
    return graph_file(Path(name))


def load_inference(file: Path) -> "Inference":
    """Load a model for prediction from a file.

    Raises:
        ConfigError: if the extra `models` is not installed, or the file is not such a model.
    """
    require_models()
    from sottovoce_lab.models.checks import forward_file
    from sottovoce_lab.models.inference import Inference

    return Inference(forward_file(file), str(file))


def show_facts(facts: dict[str, Any]) -> None:
    """Print one fact per line; for a list, print one line per entry."""
    for key, value in facts.items():
        for entry in value if isinstance(value, list) else [value]:
            typer.echo(f"{key:12} {entry}")
