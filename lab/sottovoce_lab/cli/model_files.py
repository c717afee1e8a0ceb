"""Graph files for the `sottovoce model` commands, and the check of their optional packages."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce_lab.models.checks import GraphFile
    from sottovoce_lab.models.inference import Inference


def require_models() -> None:
    """Fail early if the extra `models` is not installed.

    Raises:
        ConfigError: names the package to install.
    """
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"this command needs {' and '.join(missing)}: on a workstation, pip install 'sottovoce[models]' and run "
            "the same command there; a device runs its model without them"
        )


def graph_of(name: str) -> "GraphFile":
    """Return the validated graph of a stock model, by its name, or of a file.

    Raises:
        ConfigError: if the graph does not exist or cannot be trusted.
    """
    from sottovoce.kernels.onnx.allowed import STOCK, SUFFIX, stock_hashes

    from sottovoce_lab.models.checks import graph_file

    if name in stock_hashes():
        return graph_file(STOCK / f"{name}{SUFFIX}")
    if not name.endswith(SUFFIX):
        raise ConfigError(f"{name}: no such model; name {', '.join(stock_hashes())}, or a file that ends in {SUFFIX}")
    return graph_file(Path(name))


def inference_of(file: Path) -> "Inference":
    """Load a model for predictions from a file.

    Raises:
        ConfigError: if the extra is missing, or the file is not such a model.
    """
    require_models()
    from sottovoce_lab.models.checks import forward_file
    from sottovoce_lab.models.inference import Inference

    return Inference(forward_file(file), str(file))


def show_facts(facts: dict[str, Any]) -> None:
    """Print facts, one per line, and lists one entry per line."""
    for key, value in facts.items():
        for one in value if isinstance(value, list) else [value]:
            typer.echo(f"{key:12} {one}")
