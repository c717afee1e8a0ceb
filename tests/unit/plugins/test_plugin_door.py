"""The public door for other packages: templates, pages and examples need nothing else, and its names are kept."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import sottovoce.plugin
import sottovoce_lab.templates
from sottovoce.plugin import RoundAlgorithm

_ROOT = Path(__file__).parents[3]
_TEMPLATES = Path(sottovoce_lab.templates.__file__).parent
_PUBLIC = {"sottovoce", "sottovoce.plugin", "sottovoce.testing", "sottovoce_lab"}
_PAGES = ("docs/tutorial.md", "docs/how-to/own-algorithm.md", "docs/how-to/plug-ins.md", "README.md")


def _sources() -> Iterator[tuple[str, str]]:
    for file in [*_TEMPLATES.glob("*/**/*.py"), *(_ROOT / "examples").glob("*.py")]:
        yield str(file.relative_to(_ROOT)), file.read_text(encoding="utf-8")
    for page in _PAGES:
        text = (_ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```|<<'END'\n(.*?)\nEND\n", text, re.DOTALL)
        yield page, "\n".join(python or script for python, script in blocks)


def _imported_modules(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


@pytest.mark.parametrize("name, code", [pytest.param(*source, id=source[0]) for source in _sources()])
def test_only_public_modules_are_imported(name: str, code: str) -> None:
    ours = {module for module in _imported_modules(code) if module.split(".")[0].startswith("sottovoce")}
    assert ours <= _PUBLIC


def test_every_public_name_exists_and_is_on_the_page() -> None:
    page = (_ROOT / "docs/reference/plugin.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    listed = re.findall(r"\w+", " ".join(cells))
    names = vars(sottovoce.plugin)["__all__"]  # absent from the stub, which type checkers read
    assert sorted(listed) == sorted(names)
    assert all(hasattr(sottovoce.plugin, name) for name in names)


def test_type_checkers_see_each_name_where_it_is_defined() -> None:
    stub = ast.parse((_ROOT / "agent/sottovoce/plugin.pyi").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(stub) if isinstance(node, ast.ImportFrom)]
    stated = [(name.name, node.module) for node in imports for name in node.names if name.name == name.asname]
    assert sorted(stated) == sorted(vars(sottovoce.plugin)["_MODULES"].items())


def test_the_page_of_learners_lists_each_field_of_an_algorithm() -> None:
    page = (_ROOT / "docs/how-to/own-learner.md").read_text(encoding="utf-8")
    table = page.partition("<!-- fields of Algorithm -->\n")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    listed = re.findall(r"`(\w+)`", " ".join(first_cells))
    assert sorted(listed) == sorted(field.name for field in fields(sottovoce.plugin.Algorithm))


def test_the_page_of_algorithms_lists_each_member_of_the_class() -> None:
    page = (_ROOT / "docs/how-to/own-algorithm.md").read_text(encoding="utf-8")
    table = page.partition("## The members of the class")[2].partition("\n`Work`")[0]
    listed = re.findall(r"^\| `(\w+)", table, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in vars(RoundAlgorithm) if not name.startswith("_"))


def test_pages_for_authors_send_no_one_to_source_files() -> None:
    for page in ("own-learner", "own-algorithm", "plug-ins"):
        assert "../agent/" not in (_ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8")
