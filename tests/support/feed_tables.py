"""Table of the meter formats in docs/reference/feeds.md; `python -m tests.support.feed_tables` rewrites it."""

from sottovoce.config.feed import BuiltInFormat, ValueSection, built_in_formats

from tests.support.sources import ROOT, markdown_table

PAGE = ROOT / "docs/reference/feeds.md"
_BEGIN, _END = "<!-- formats -->\n", "<!-- end of formats -->"


def filled(page: str) -> str:
    """Return the page with the table as the formats define it."""
    before, found, rest = page.partition(_BEGIN)
    assert found, "the page has no table of formats"
    return before + _BEGIN + table() + _END + rest.partition(_END)[2]


def table() -> str:
    """Return one row for each built-in format of a broker's messages; topics show the words that need names."""
    head = ("format", "reads", "topic, and path in its JSON", "unit", "also")
    formats = (form for form in built_in_formats().values() if "`feed.source" not in form.reads)
    return markdown_table(head, map(_row, formats))


def _row(form: BuiltInFormat) -> tuple[str, ...]:
    names = [_name(form, word) for word in form.placeholders if word in form.usual]
    unit = form.unit if form.scale == 1.0 else f"{form.scale:.4g} {form.unit}"
    return (
        f"`{form.name}`",
        form.reads,
        " + ".join(_place(value) for value in form.values),
        f"{unit}, a power" if form.kind == "gauge" else unit,
        ", ".join((*names, *(["`id`"] if form.id is not None else []))),
    )


def _name(form: BuiltInFormat, word: str) -> str:
    return f"`{word}` is {', '.join(f'`{one}`' for one in form.usual[word])}, or another"


def _place(value: ValueSection) -> str:
    return f"`{value.topic}`" if value.path is None else f"`{value.topic}` at `{value.path}`"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
