"""`sottovoce docs`: show, list or search the documentation pages installed with the package."""

import re
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.errors import UsageError
from sottovoce.suggestions import suggest_name

_INSTALLED = Path(__file__).parents[1] / "docs"
_IN_REPOSITORY = Path(__file__).parents[3] / "docs"


def run_docs(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="PAGE",
            help="A page or a section, such as tutorial or exit-codes#9-plug-in; lists all pages if omitted.",
        ),
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="WORDS", help="List the pages that contain all these words.")
    ] = None,
) -> None:
    """Show a documentation page, list all pages, or search them."""
    pages = all_pages()
    if page is None or search is not None:
        _list_pages(pages, (search or "").lower().split())
        return
    name, _, section = page.partition("#")
    text = _find_section(_find_page(pages, name).read_text(encoding="utf-8"), section)
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text) if console.is_terminal else text, markup=False, highlight=False, soft_wrap=True)


def all_pages() -> dict[str, Path]:
    """Return a mapping from each page name to its file.

    Raises:
        UsageError: if the pages are not installed.
    """
    directory = _INSTALLED if _INSTALLED.is_dir() else _IN_REPOSITORY
    pages = {path.relative_to(directory).with_suffix("").as_posix(): path for path in sorted(directory.rglob("*.md"))}
    if not pages:
        raise UsageError("the documentation pages are missing from this installation; reinstall the package")
    return pages


def _find_page(pages: dict[str, Path], requested: str) -> Path:
    name = requested.removeprefix("docs/").removesuffix(".md").strip("/")
    matches = [path for page_name, path in pages.items() if page_name == name or page_name.endswith(f"/{name}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(page_name for page_name, path in pages.items() if path in matches)
        raise UsageError(f"{requested}: several pages match; choose one of {names}")
    similar = suggest_name(name, pages) or suggest_name(name, [page_name.rpartition("/")[2] for page_name in pages])
    hint = f"; did you mean {similar}?" if similar else ";"
    raise UsageError(f"{requested}: no such page{hint} `sottovoce docs` lists all pages")


def _find_section(text: str, anchor: str) -> str:
    """Return the section of a page that has this anchor, or the whole page if none has."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    anchors = (re.sub(r"[^\w\- ]", "", section.partition("\n")[0].lower()).strip() for section in sections)
    return dict(zip((name.replace(" ", "-") for name in anchors), sections, strict=True)).get(anchor, text)


def _list_pages(pages: dict[str, Path], words: list[str]) -> None:
    count = 0
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        if all(word in text.lower() for word in words):
            count += 1
            typer.echo(f"{name:40} {text.partition(chr(10))[0].removeprefix('# ')}")
    if not count:
        raise UsageError(f"no page contains all of these words: {' '.join(words)}")
