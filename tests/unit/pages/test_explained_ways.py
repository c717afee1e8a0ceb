"""The pages that follow a release and a setting through the files: every arrow is an import."""

import ast
import re
from pathlib import Path

import pytest
import sottovoce

HOME = Path(sottovoce.__file__).parent
PAGES = HOME.parents[1] / "docs" / "explanation"
ARROW = re.compile(r"`([\w/.]+)` → `([\w/.]+)`")
FOUND_IN_ITS_FOLDER = {("registry.py", "algorithms/push_sum/algorithm.py")}


def arrows(page: str) -> list[tuple[str, str]]:
    """From whom to whom, in the page's order."""
    return ARROW.findall((PAGES / page).read_text(encoding="utf-8"))


def module(path: str) -> str:
    """Of a file below the package."""
    return ".".join(("sottovoce", *Path(path).with_suffix("").parts)).removesuffix(".__init__")


def imported(path: str) -> set[str]:
    """Modules that a file imports, and names out of them."""
    names = set()
    for node in ast.walk(ast.parse((HOME / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("page, steps", [("way-of-a-release.md", 20), ("way-of-a-setting.md", 15)])
def test_every_arrow_is_an_import(page: str, steps: int) -> None:
    found = arrows(page)
    assert len(found) == steps
    for one, other in found:
        assert (HOME / other).exists(), other
        if (one, other) not in FOUND_IN_ITS_FOLDER:
            assert any(name == module(other) or name.startswith(module(other) + ".") for name in imported(one)), (
                f"{one} does not import {other}"
            )
