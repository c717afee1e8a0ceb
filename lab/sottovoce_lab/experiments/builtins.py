"""Built-in experiments, stored as TOML files; and every other learner, at its defaults."""

from collections.abc import Collection
from importlib import resources
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.registry import ALGORITHMS
from sottovoce.suggestions import suggestion

from sottovoce_lab.experiments.settings import KEYS, from_file

_FOLDER = resources.files("sottovoce_lab.experiments") / "builtin"


def names() -> list[str]:
    """Return the names of the built-in experiments."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def load_experiment(name: str, known: Collection[str] | None = KEYS) -> dict[str, Any]:
    """Return dotted keys and values of a built-in experiment, of a learner at its defaults, or of a file.

    Args:
        name: name of the experiment or the learner, or a path.
        known: the valid keys; None to check keys later.

    Raises:
        UsageError: if the experiment does not exist.
        ConfigError: if the file cannot be read, or has an unknown key.
    """
    if name in names():
        with resources.as_file(_FOLDER / f"{name}.toml") as path:
            return from_file(path, known)
    if name in ALGORITHMS:
        return {"learner.name": name}
    if not name.endswith(".toml"):
        near = suggestion(name, [*names(), *ALGORITHMS])
        guess = f"did you mean {near}? Give" if near else "give"
        raise UsageError(
            f"{name}: no such experiment; {guess} a file that ends in .toml, or one of "
            f"{', '.join(sorted({*names(), *ALGORITHMS}))}"
        )
    return from_file(Path(name), known)
