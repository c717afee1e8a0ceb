"""Hooks of the site: turn links to files outside docs/ into plain text, and add a page of names for each package."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")
_DOCS = Path(__file__).parents[1] / "docs"
_NAMES = {"sottovoce": "sottovoce.api", "sottovoce_lab": "sottovoce_lab.api"}


def on_files(files: Files, config: Any) -> Files:
    """The files of docs/, and a page for each package."""
    for package, module in _NAMES.items():
        page = File.generated(config, f"reference/api-{package}.md", content=_page(package, module))
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, with only the links to other pages kept."""
    folder = (_DOCS / page.file.src_uri).parent

    def kept(link: re.Match[str]) -> str:
        target = (folder / link[2].partition("#")[0]).resolve()
        return link[0] if target.is_relative_to(_DOCS) else link[1]

    return _LINK.sub(kept, markdown)


def _page(package: str, module: str) -> str:
    """The public names of a package, each with its docstring."""
    public = import_module(module)
    lines = [f"# Names of `import {package}`", "", "*Reference* · [all pages](../index.md)", ""]
    for name in sorted(public.__all__, key=str.lower):
        found = getattr(public, name)
        where = getattr(found, "__module__", module)
        lines += [f"::: {where}.{getattr(found, '__qualname__', name)}", ""]
    return "\n".join(lines)
