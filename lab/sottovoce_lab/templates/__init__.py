"""Templates for packages, fleets and notebooks, from which `sottovoce init` creates files with the user's own names."""

import keyword
import re
from pathlib import Path

from sottovoce.errors import UsageError

_DIRECTORY = Path(__file__).parent
_GENERATED = ("__pycache__", ".pytest_cache", ".mypy_cache")


def templates() -> list[str]:
    """Return the names of all templates."""
    return sorted(path.name for path in _DIRECTORY.iterdir() if path.is_dir() and path.name not in _GENERATED)


def create_files(template: str, directory: Path) -> list[Path]:
    """Create a template's files in a new or empty directory, which also gives a package its name.

    Returns:
        paths of the written files.

    Raises:
        UsageError: if there is no such template, if the directory is not empty or cannot be written, or if its name is
            not a valid package name.
    """
    if template not in templates():
        raise UsageError(f"unknown template {template}; set --template to one of {', '.join(templates())}")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"directory {directory} is not empty; choose a new directory")
    source = _DIRECTORY / template
    replacements = _replacements(source, directory.absolute().name)
    files = []
    for path in sorted(source.rglob("*")):
        if path.is_dir() or any(part in _GENERATED for part in path.parts):
            continue
        file = directory / _replace_words(str(path.relative_to(source)), replacements)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_replace_words(path.read_text(encoding="utf-8"), replacements), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"file {file} cannot be written ({error.strerror})") from error
        files.append(file)
    return files


def _replacements(source: Path, name: str) -> dict[str, str]:
    """Map each placeholder name in a template to the user's own name."""
    if not (source / "pyproject.toml").exists():
        return {}
    (module,) = (path.stem for path in source.glob("*.py"))
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or keyword.iskeyword(name) or len(name) > 16:
        raise UsageError(
            f"{name} is not a valid name for the package and its plug-in: name the directory with 1 to 16 of a-z, 0-9 "
            "and inner hyphens, beginning with a letter"
        )
    module_name = name.replace("-", "_")
    return {
        module: module_name,
        module.replace("_", "-"): module_name.replace("_", "-"),
        _class_name(module): _class_name(module_name),
    }


def _class_name(module: str) -> str:
    return "".join(part.capitalize() for part in module.split("_"))


def _replace_words(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text
