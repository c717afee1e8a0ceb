"""Page of the Python library: its blocks run, and it names every public name."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sottovoce
import sottovoce_lab

from tests.support.sources import ROOT

PAGE = ROOT / "docs/reference/library.md"
BLOCK = re.compile(r"(<!-- skipped: .*? -->\n)?```python\n(.*?)```", re.DOTALL)


def blocks(text: str) -> Iterator[str]:
    """Python blocks of a page that do not say why they cannot be run."""
    return (code for skipped, code in BLOCK.findall(text) if not skipped)


def test_the_blocks_of_the_page_run_in_their_order(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(["import matplotlib", 'matplotlib.use("Agg")', *blocks(PAGE.read_text())]))
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("module", [sottovoce, sottovoce_lab])
def test_every_public_name_is_there_and_on_the_page(module: object) -> None:
    names = [name for name in module.__all__ if name != "__version__"]  # type: ignore[attr-defined]
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in names if not re.search(rf"\b{name}\b", page)] == []
    assert all(getattr(module, name) is not None for name in names)


@pytest.mark.parametrize("package", ["agent/sottovoce", "lab/sottovoce_lab"])
def test_type_checkers_see_the_names_that_programs_get(package: str) -> None:
    stub = (ROOT / package / "__init__.pyi").read_text(encoding="utf-8")
    module = sottovoce if package.endswith("sottovoce") else sottovoce_lab
    shown = set(re.findall(r"(\w+) as \1", stub))
    assert shown == {name for name in module.__all__ if name != "__version__"}


@pytest.mark.parametrize("module", ["sottovoce", "sottovoce_lab"])
def test_an_import_loads_little_and_an_unknown_name_is_an_error(module: str) -> None:
    code = f"import sys, {module}; print(len([m for m in sys.modules if m.startswith('sottovoce')])); {module}.absent"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert int(ended.stdout) <= 2
    assert ended.stderr.rstrip().endswith(f"AttributeError: module '{module}' has no attribute 'absent'")
