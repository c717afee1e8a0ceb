"""Building blocks for a page. Only this module creates markup, and it escapes every value on entry."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from sottovoce.privacy.accounting.gaussian import format_rounded_up

_STYLE = Path(__file__).with_name("style.css")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_PAGE_PATH = re.compile(r"docs/[\w/-]+\.md")


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML created here or by matplotlib, whose values are already escaped."""

    html: str


@dataclass(slots=True)
class Page:
    """A page that is filled from top to bottom.

    Args:
        title: the page title.
    """

    title: str
    _parts: list[str] = field(default_factory=list)

    def add(self, *parts: Markup) -> None:
        """Append parts to the page."""
        self._parts += [part.html for part in parts]

    def html(self) -> str:
        """Return the complete HTML document."""
        head = (
            '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{_STYLE.read_text(encoding='utf-8')}</style>"
        )
        body = "\n".join([f"<h1>{escape(self.title)}</h1>", *self._parts])
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
            f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>"
        )


def heading(text: str) -> Markup:
    """Return a section heading."""
    return Markup(f"<h2>{escape(text)}</h2>")


def paragraph(text: str, kind: str = "") -> Markup:
    """Return a paragraph; `kind` is a class in the style sheet."""
    return Markup(f"<p{_class_attribute(kind)}>{escape(text)}</p>")


def warnings(messages: Iterable[str]) -> Markup:
    """Return a section with warnings for the reader, or empty markup if there are none."""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in messages)
    return Markup(f'<section class="warnings"><h2>Read this first</h2><ul>{items}</ul></section>' if items else "")


def linked(text: str, links: Mapping[str, tuple[str, str]]) -> Markup:
    """Return text in which the path of each documentation page is a link.

    Args:
        text: the text.
        links: for each page's path, such as `docs/tutorial.md`, its title and its address; other paths stay text.
    """

    def link(path: re.Match[str]) -> str:
        if path[0] not in links:
            return path[0]
        title, address = links[path[0]]
        return f'<a href="{escape(address)}">{escape(title)}</a>'

    return Markup(_PAGE_PATH.sub(link, escape(text)))


def facts(caption: str, rows: Iterable[tuple[str, str | Markup]]) -> Markup:
    """Return a table of names and values, omitting names with an empty value."""
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f"<td>{value.html if isinstance(value, Markup) else escape(value)}</td></tr>"
        for name, value in rows
        if value
    )
    return Markup(f"<table><caption>{escape(caption)}</caption><tbody>{cells}</tbody></table>")


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[int] | None = None,
    marked: int | None = None,
) -> Markup:
    """Return a table with column headings.

    Args:
        caption: the table's caption.
        columns: the headings.
        rows: the cells of each row.
        numbers: the indices of the columns that contain numbers; all but the first if None.
        marked: the index of a row to mark; None for no mark.
    """
    numeric = range(1, len(columns)) if numbers is None else numbers
    kinds = [_class_attribute("number" if i in numeric else "") for i in range(len(columns))]
    names = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for kind, name in zip(kinds, columns, strict=True))
    body = "".join(
        f"<tr{_class_attribute('marked' if i == marked else '')}>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    return Markup(
        f'<div class="wide"><table><caption>{escape(caption)}</caption><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def collapsible(summary: str, inner: Markup) -> Markup:
    """Return a collapsed section that expands on a click."""
    return Markup(f"<details><summary>{escape(summary)}</summary>{inner.html}</details>")


def budget(spent: float, total: float) -> Markup:
    """Return a captioned bar for the share of ε spent, in a calm colour because budgets are meant to be spent."""
    label, left = f"ε = {format_rounded_up(spent)} of {total:g} spent", max(0.0, total - spent)
    bar = f'<progress class="budget" max="{total:g}" value="{spent:g}" aria-label="{escape(label)}"></progress>'
    remainder = f"{left:.3f} left" if left >= 0.0005 else "none left: no more releases"
    return Markup(f"<p>{escape(label)}, {remainder}{bar}</p>")


def figure(drawing: Markup, caption: str) -> Markup:
    """Return a drawing with a caption that describes it."""
    return Markup(f'<figure><div class="wide">{drawing.html}</div><figcaption>{escape(caption)}</figcaption></figure>')


def _class_attribute(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""
