"""`sottovoce docs`: pages by name, a list, and a search."""

import re
from pathlib import Path

import pytest
from sottovoce.cli.docs import all_pages
from sottovoce.errors import ExitCode

from tests.support.command import run_here
from tests.support.sources import sources

ROOT = Path(__file__).parents[3]


def test_all_pages_are_listed_with_their_titles() -> None:
    listed = run_here("docs").out
    assert re.search(r"^reference/exit-codes +Exit codes$", listed, re.MULTILINE)
    assert len(listed.splitlines()) == len(all_pages())


@pytest.mark.parametrize("name", ["exit-codes", "reference/exit-codes", "docs/reference/exit-codes.md"])
def test_a_page_is_shown_by_name_or_path(name: str) -> None:
    assert run_here("docs", name).out.startswith("# Exit codes\n")


def test_a_section_is_shown_by_the_address_that_messages_contain() -> None:
    shown = run_here("docs", "docs/reference/exit-codes.md#9-plug-in").out
    assert shown.startswith("## 9: plug-in\n")
    assert "## 75" not in shown
    whole = run_here("docs", "exit-codes#no-such-section").out
    assert whole.startswith("# Exit codes\n")


def test_pages_are_searched() -> None:
    assert "explanation/privacy-model" in run_here("docs", "--search", "threat model").out
    none = run_here("docs", "--search", "antidisestablishmentarianism")
    assert (none.code, "no page contains all of these words" in none.err) == (ExitCode.USAGE, True)


def test_an_unknown_page_suggests_the_nearest() -> None:
    missing = run_here("docs", "turorial")
    assert (missing.code, "did you mean tutorial?" in missing.err) == (ExitCode.USAGE, True)


def test_every_page_mentioned_in_a_message_is_installed() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    installed = tuple(re.findall(r'^"(docs/[^"]+)" = ', text, re.MULTILINE))
    named = {page for file in sources() for page in re.findall(r"docs/[a-z0-9/-]+\.md", file.read_text())}
    assert named
    assert {page for page in named if not page.startswith(installed) or not (ROOT / page).exists()} == set()
