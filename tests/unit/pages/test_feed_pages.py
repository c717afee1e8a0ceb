"""The pages on meters agree with the built-in formats."""

import re
from collections import Counter
from pathlib import Path

from sottovoce.config import load
from sottovoce.config.feed import built_in_formats
from sottovoce_home.plugin_source import PluginSource

from tests.support.feed_tables import PAGE, filled
from tests.support.sources import ROOT

METERS = ROOT / "docs/how-to/meters.md"


def test_the_table_of_formats_is_that_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run `python -m tests.support.feed_tables`"


def test_the_configurations_of_sources_shown_load(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Meters without a broker")[2].partition("\n## ")[0]
    shown = re.findall(r"^```toml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for text in shown:
        file = tmp_path / "agent.toml"
        file.write_text('agent.state = "state"\n' + text, encoding="utf-8")
        feed = load(file).feed
        assert feed.source is not None
        PluginSource(feed.source, feed.settings)
    assert len(shown) == 2


def test_the_first_page_says_what_each_format_reads() -> None:
    (rows,) = re.findall(
        r"^\| a home owns \|.*\n\| --- .*\n((?:\|.*\n)+)", METERS.read_text(encoding="utf-8"), re.MULTILINE
    )
    named = Counter(re.findall(r"`([a-z0-9-]+)`", rows))
    assert set(built_in_formats()) <= set(named), "docs/how-to/meters.md: the table of what a home owns"
    assert max(named[name] for name in built_in_formats()) == 1
