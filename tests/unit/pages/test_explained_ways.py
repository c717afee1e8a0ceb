"""Pages that trace an item through the code, and the module map: every arrow is an import."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import sottovoce

HOME = Path(sottovoce.__file__).parent
DOCS = HOME.parents[1] / "docs"
PAGES = DOCS / "explanation"
ARROW = re.compile(r"`([\w/.]+)` → `([\w/.]+)`")
FOUND_IN_ITS_FOLDER = {("learning/registry.py", "algorithms/push_sum/algorithm.py")}


def arrows(page: str) -> list[tuple[str, str]]:
    """Return the callers and callees in the page's order."""
    return ARROW.findall((PAGES / page).read_text(encoding="utf-8"))


def module(path: str) -> str:
    """Return the module name of a file below the package."""
    return ".".join(("sottovoce", *Path(path).with_suffix("").parts)).removesuffix(".__init__")


def imported(path: str) -> set[str]:
    """Return the modules that a file imports, and the names from them."""
    names = set()
    for node in ast.walk(ast.parse((HOME / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize(
    "page, steps", [("life-of-a-release.md", 20), ("life-of-a-setting.md", 15), ("../architecture.md", 12)]
)
def test_every_arrow_is_an_import(page: str, steps: int) -> None:
    result = arrows(page)
    assert len(result) == steps
    for item, other in result:
        assert (HOME / other).exists(), other
        if (item, other) not in FOUND_IN_ITS_FOLDER:
            assert any(name == module(other) or name.startswith(module(other) + ".") for name in imported(item)), (
                f"{item} does not import {other}"
            )


def test_a_setting_passes_through_few_files() -> None:
    """A file counts once, and a return is a step in a file that the setting had left."""
    steps = [file for arrow in arrows("life-of-a-setting.md") for file in arrow]
    stays = [file for file, previous in zip(steps, [None, *steps], strict=False) if file != previous]
    assert len(set(stays)) <= 20
    assert len(stays) - len(set(stays)) <= 12


def test_the_map_shows_the_import_contract_s_layers() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("<!-- modules -->\n```text\n")[2].partition("```")[0]
    output = [line.partition("  ")[0].split(" | ") for line in block.splitlines()]  # a remark follows two spaces
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    assert output == [[name.strip() for name in layer.split("|")] for layer in layers if layer != "__main__"]
