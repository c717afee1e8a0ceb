"""`sottovoce docs`: show, list or search the documentation pages installed with the package."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.errors import UsageError
from sottovoce.suggestions import suggestion

_INSTALLED = Path(__file__).parents[1] / "docs"
_OF_THE_REPOSITORY = Path(__file__).parents[3] / "docs"


def run_docs(
    page: Annotated[
        str | None,
        typer.Argument(metavar="PAGE", help="A page, such as tutorial or exit-codes/9; lists all pages if omitted."),
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="WORDS", help="List the pages that contain all these words.")
    ] = None,
) -> None:
    """Show a documentation page, list all pages, or search them."""
    pages = all_pages()
    if page is None or search is not None:
        _list(pages, (search or "").lower().split())
        return
    text = _find_page(pages, page).read_text(encoding="utf-8")
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text) if console.is_terminal else text, markup=False, highlight=False, soft_wrap=True)


def all_pages() -> dict[str, Path]:
    """Return a mapping from each page name to its file.

    Raises:
        UsageError: if the pages are not installed.
    """
    folder = _INSTALLED if _INSTALLED.is_dir() else _OF_THE_REPOSITORY
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
    if not found:
        raise UsageError("the documentation pages are missing from this installation; reinstall the package")
    return found


def _find_page(pages: dict[str, Path], asked: str) -> Path:
    name = asked.removeprefix("docs/").removesuffix(".md").strip("/")
    ends = [path for known, path in pages.items() if known == name or known.endswith(f"/{name}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        several = ", ".join(known for known, path in pages.items() if path in ends)
        raise UsageError(f"{asked}: multiple pages match: {several}")
    near = suggestion(name, pages) or suggestion(name, [known.rpartition("/")[2] for known in pages])
    raise UsageError(f"{asked}: no such page{f'; did you mean {near}?' if near else ';'} `sottovoce docs` lists them")


def _list(pages: dict[str, Path], words: list[str]) -> None:
    found = 0
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        if all(word in text.lower() for word in words):
            found += 1
            typer.echo(f"{name:40} {text.partition(chr(10))[0].removeprefix('# ')}")
    if not found:
        raise UsageError(f"no page contains all of these words: {' '.join(words)}")
