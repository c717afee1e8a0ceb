"""Packages with plug-ins, laid out in a folder as an installer would, and commands that find the packages."""

import os
import re
import subprocess
from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def example(page: str = "own-algorithm") -> str:
    """Return the module that a page shows: by default, the learner momentum-sgd."""
    (module,) = re.findall(r"```python\n(.*?)```", (_PAGES / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    return str(module)


def install(home: Path, package: str, code: str, group: str, *points: str, requires: str = "sottovoce") -> Path:
    """Put a package of one module into a folder.

    Args:
        home: the folder.
        package: name of the package; with underscores, also that of the module.
        code: source of the module.
        group: group of the package's entry points.
        points: entry points of the package, `NAME = MODULE:ATTRIBUTE`.
        requires: requirement of the package.
    """
    (home / f"{package.replace('-', '_')}.py").write_text(code, encoding="utf-8")
    facts = home / f"{package.replace('-', '_')}-1.0.dist-info"
    facts.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\nRequires-Dist: {requires}\n"
    (facts / "METADATA").write_text(metadata, encoding="utf-8")
    (facts / "entry_points.txt").write_text("\n".join((f"[{group}]", *points, "")), encoding="utf-8")
    return home


def run(home: Path, *command: object, seconds: float = 200.0, **named: str) -> subprocess.CompletedProcess[str]:
    """Run a command that finds the packages of a folder."""
    path = os.pathsep.join(part for part in (str(home), os.environ.get("PYTHONPATH")) if part)
    return subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **named},
    )
