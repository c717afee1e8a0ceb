"""Tables of options in docs/reference/command-line.md; `python -m tests.support.option_tables` rewrites them."""

import re
from typing import Any

from sottovoce.cli.command import command_line

from tests.support.sources import ROOT, markdown_table

PAGE = ROOT / "docs/reference/command-line.md"
_TABLE = re.compile(r"(<!-- (short )?options of ([a-z ]+) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return the page with the tables and lists of options as the commands define them."""
    return _TABLE.sub(lambda found: found[1] + (listed if found[2] else table)(found[3]) + found[4], page)


def table(name: str) -> str:
    """Return one row for each option of a command, such as `model build`."""
    return markdown_table(("option", "default", "meaning"), map(_row, _options(name)))


def listed(name: str) -> str:
    """Return a line with the options of a command, whose help says the rest, and their defaults."""
    rows = [_row(option) for option in _options(name)]
    names = [f"{option} ({default})" if default else option for option, default, _ in rows]
    return f"Options: {', '.join(names)}.\n"


def _options(name: str) -> list[Any]:
    command: Any = command_line()
    for word in name.split():
        command = command.commands[word]
    return [option for option in command.params if option.opts[0].startswith("-") and "--help" not in option.opts]


def _row(option: Any) -> tuple[str, str, str]:
    meaning, _, stated = (option.help or "").partition("  [default: ")
    choices = getattr(option.type, "choices", None)
    if choices and not all(choice in meaning for choice in choices):
        meaning = f"{meaning.removesuffix('.')}: {', '.join(choices)}"
    if isinstance(option.show_default, str):
        default = option.show_default
    else:
        default = stated.removesuffix("]") or (
            "" if option.default is None or option.default is False else f"{option.default}"
        )
    meaning = re.sub(r"docs/reference/([a-z-]+)\.md", r"[\1](\1.md)", meaning.strip().removesuffix("."))
    takes = f" {option.metavar}" if option.metavar else ""
    return f"`{max(option.opts, key=len)}{takes}`", default, meaning


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
