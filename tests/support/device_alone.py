"""A plug-in for pytest that hides the papers and the lab, which depends on them: `make test ROOM=device`.

What is left are the device's own tests. A file of tests that imports a hidden package is not among them, nor is one in
a paper's folder, nor a test with the mark `papers`. If the device's code imported a hidden package, its own tests would
fail.
"""

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

HIDDEN = ("sottovoce_lab", "sottovoce_papers")
_ROOT = Path(__file__).parents[2]

for package in HIDDEN:
    sys.modules[package] = None  # type: ignore[assignment]  # Python's way to say that an import fails


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a paper's folder, and a file of tests that imports a hidden package, itself or through other files."""
    if collection_path.is_dir():
        return True if (_ROOT / "papers/sottovoce_papers" / collection_path.name).is_dir() else None
    return True if collection_path.suffix == ".py" and imports_hidden(collection_path) else None


@lru_cache
def imports_hidden(file: Path) -> bool:
    """Return whether a file below tests/ imports a hidden package when it is imported."""
    modules = set(_imported_modules(file))
    files = (_ROOT / f"{module.replace('.', '/')}.py" for module in modules if module.startswith("tests."))
    return any(module.partition(".")[0] in HIDDEN for module in modules) or any(
        imports_hidden(other) for other in files if other.is_file()
    )


def _imported_modules(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (node.module, *(f"{node.module}.{name.name}" for name in node.names))
