"""Hooks of the site: its navigation, its search's order, its pictures, and a page of names for each package."""

import re
from html import escape
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")
_PICTURE = re.compile(r'<p>\s*<img alt="([^"]*)" src="([^"]+\.svg)"\s*/?>\s*</p>')
_LEFT_OUT = re.compile(r"<style\b.*?</style>|<title>.*?</title>|<metadata>.*?</metadata>", re.DOTALL)
_INKS = {"#000000": "currentColor", "#ffffff": "none", "#cccccc": "#8b949e55"}
"""Colours of plots that are black on white, and the page's own in their place."""
_DOCS = Path(__file__).parents[1] / "docs"
_NAMES = {"sottovoce": "sottovoce.api", "sottovoce_lab": "sottovoce_lab.api", "sottovoce.plugin": "sottovoce.plugin"}
_BOOSTS = {"decisions": 0.01, "results": 0.01, "reference/api-": 0.1}
"""How much less than others a page counts in a search, by the beginning of its path. Records of decisions and results
hold every word of the field, and would otherwise come before the page that answers a question."""
_ASKED = {
    "how-to/household.md": ["what leaves", "opt out", "withdraw", "consent", "cost", "a year", "watts", "traffic"],
    "explanation/ledger.md": ["backup", "restore", "clone"],
    "explanation/secure-sums.md": ["liar", "dishonest"],
    "explanation/contributions.md": ["liar", "dishonest", "one liar"],
    "reference/learners.md": ["which learner"],
    "explanation/for-me.md": ["accuracy", "ε = 1", "epsilon"],
    "how-to/install.md": ["Raspberry Pi"],
    "how-to/coming-from.md": ["Flower", "Opacus"],
    "audit-guide.md": ["audit", "auditor"],
    "explanation/privacy-model.md": ["privacy budget", "threat model"],
}
"""What people ask, in their own words, for pages that answer it in others: a search finds these first."""


def on_config(config: Any) -> Any:
    """The configuration, with every decision below `Decisions` in the navigation."""
    (design,) = (section["Design"] for section in config.nav if "Design" in section)
    decisions = sorted(path.relative_to(_DOCS).as_posix() for path in _DOCS.glob("decisions/[0-9]*.md"))
    design.append({"Decisions": ["decisions/README.md", *decisions]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """The files of docs/, and a page for each package."""
    for package, module in _NAMES.items():
        page = File.generated(config, f"reference/api-{package}.md", content=_page(package, module))
        files.append(page)
    if missing := [path for path in _ASKED if files.get_file_from_path(path) is None]:
        raise PluginError(f"pages that answer questions are missing: {', '.join(missing)}")
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, with only the links to other pages kept."""
    folder = (_DOCS / page.file.src_uri).parent
    boost = next((boost for start, boost in _BOOSTS.items() if page.file.src_uri.startswith(start)), 1.0)
    page.meta["search"] = {"boost": boost}
    page.meta["tags"] = _ASKED.get(page.file.src_uri, [])

    def kept(link: re.Match[str]) -> str:
        target = (folder / link[2].partition("#")[0]).resolve()
        return link[0] if target.is_relative_to(_DOCS) else link[1]

    return _LINK.sub(kept, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """The page, with its pictures in place instead of linked, so that they have its light or dark colours."""
    folder = (_DOCS / page.file.dest_uri).parent

    def drawn(image: re.Match[str]) -> str:
        svg = (folder / image[2]).resolve().read_text(encoding="utf-8")
        svg = _LEFT_OUT.sub("", svg[svg.index("<svg") :])
        for ink, colour in _INKS.items():
            svg = svg.replace(ink, colour)
        return f'<div class="picture" data-search-exclude role="img" aria-label="{escape(image[1])}">{svg}</div>'

    return _PICTURE.sub(drawn, html)


def _page(package: str, module: str) -> str:
    """The public names of a package, each with its docstring."""
    public = import_module(module)
    lines = [f"# Names of `import {package}`", "", "*Reference* · [all pages](../index.md)", ""]
    for name in sorted(public.__all__, key=str.lower):
        found = getattr(public, name)
        where = getattr(found, "__module__", module)
        if isclass(found) or isfunction(found):  # other names have no docstring
            lines += [f"::: {where}.{getattr(found, '__qualname__', name)}", ""]
    return "\n".join(lines)
