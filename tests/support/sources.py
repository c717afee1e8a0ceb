"""Python code of the project: the locations of its packages."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ROOT / "agent/sottovoce",
    ROOT / "coordinator-free-bootstrap/sottovoce_bootstrap",
    ROOT / "home/sottovoce_home",
    ROOT / "lab/sottovoce_lab",
)


def sources() -> list[Path]:
    """Return every source file of every package, in order."""
    return [file for package in PACKAGES for file in sorted(package.rglob("*.py"))]


def display_path(file: Path) -> str:
    """Return a file's package and path within it, such as `sottovoce/cli/main.py`."""
    package = next(package for package in PACKAGES if file.is_relative_to(package))
    return file.relative_to(package.parent).as_posix()
