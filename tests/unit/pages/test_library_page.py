"""Page about the Python library: its blocks run, and it lists every public name."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sottovoce
import sottovoce.testing
import sottovoce_lab

from tests.support.sources import ROOT

PAGE = ROOT / "docs/reference/library.md"
BLOCK = re.compile(r"(<!-- skipped: .*? -->\n)?```python\n(.*?)```", re.DOTALL)


def blocks(text: str) -> Iterator[str]:
    """Return a page's Python blocks, except those with a reason not to run."""
    return (code for skipped, code in BLOCK.findall(text) if not skipped)


@pytest.mark.process
def test_the_page_s_blocks_run_in_order(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(["import matplotlib", 'matplotlib.use("Agg")', *blocks(PAGE.read_text())]))
    completed = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr


@pytest.mark.parametrize("module", [sottovoce, sottovoce.testing, sottovoce_lab])
def test_every_public_name_exists_and_is_on_the_page(module: object) -> None:
    names = [name for name in module.__all__ if name != "__version__"]  # type: ignore[attr-defined]
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in names if not re.search(rf"\b{name}\b", page)] == []
    assert all(getattr(module, name) is not None for name in names)


@pytest.mark.parametrize("package", ["agent/sottovoce", "lab/sottovoce_lab"])
def test_type_checkers_see_the_public_names(package: str) -> None:
    stub = (ROOT / package / "__init__.pyi").read_text(encoding="utf-8")
    module = sottovoce if package.endswith("sottovoce") else sottovoce_lab
    output = set(re.findall(r"(\w+) as \1", stub))
    assert output == {name for name in module.__all__ if name != "__version__"}


@pytest.mark.process
@pytest.mark.parametrize("module", ["sottovoce", "sottovoce_lab"])
def test_import_is_lazy_and_unknown_names_raise(module: str) -> None:
    code = f"import sys, {module}; print(len([m for m in sys.modules if m.startswith('sottovoce')])); {module}.unlisted"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert int(completed.stdout) <= 2
    assert completed.stderr.rstrip().endswith(f"AttributeError: module '{module}' has no attribute 'unlisted'")
