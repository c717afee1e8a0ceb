"""Built-in experiments, stored as TOML files, and every other learner with its default settings."""

from collections.abc import Collection
from importlib import resources
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.suggestions import suggest_name

from sottovoce_lab.experiments.settings import KEYS, from_file

_FOLDER = resources.files("sottovoce_lab.experiments") / "builtin"


def names() -> list[str]:
    """Return the names of the built-in experiments."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def load_experiment(name: str, known: Collection[str] | None = KEYS) -> dict[str, Any]:
    """Return the dotted keys and values for a built-in experiment, a learner with its defaults, or a file.

    Args:
        name: the name of an experiment or a learner, or a path that ends in .toml.
        known: the valid keys; None to accept any key.

    Raises:
        UsageError: if there is no experiment or learner with this name.
        ConfigError: if the file cannot be read or contains an unknown key.
    """
    if name in names():
        with resources.as_file(_FOLDER / f"{name}.toml") as path:
            return from_file(path, known)
    if name in ALGORITHMS:
        return {"learner.name": name}
    if not name.endswith(".toml"):
        nearest = suggest_name(name, [*names(), *ALGORITHMS])
        remedy = f"did you mean {nearest}? Specify" if nearest else "specify"
        raise UsageError(
            f"{name}: no such experiment; {remedy} a file that ends in .toml, or one of "
            f"{', '.join(sorted({*names(), *ALGORITHMS}))}"
        )
    return from_file(Path(name), known)
