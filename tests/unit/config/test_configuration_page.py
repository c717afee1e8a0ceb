"""The page on the configuration has a table for every table of the schema, as the code writes them."""

import re

import pytest
from sottovoce.learning.registry import ALGORITHMS, COMMON_KEYS

from tests.support.configuration_tables import COMMAND, PAGE, SECTIONS, filled, own_keys


@pytest.mark.papers
def test_the_tables_are_those_of_the_schema() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"<!-- keys of ([a-z_.]+) -->", page) != []
    assert filled(page) == page, f"run `{COMMAND}`"


def test_every_table_of_the_schema_is_on_the_page() -> None:
    shown = re.findall(r"<!-- keys of ([a-z_.]+) -->", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted({*SECTIONS, "learner"})


@pytest.mark.papers
def test_the_page_lists_every_learner_s_keys() -> None:
    listed: dict[str, set[str]] = {}
    for names, keys in own_keys():
        base = re.search(r"those of `([a-z0-9-]+)`", keys)
        own = set(re.findall(r"`([a-z_]+)`", keys)) | (listed[base[1]] if base else set())
        listed |= dict.fromkeys(re.findall(r"`([^`]+)`", names), own - ({base[1]} if base else set()))
    assert listed == {name: set(known.keys) for name, known in ALGORITHMS.items()}
    assert all(f"`{key}`" in PAGE.read_text(encoding="utf-8") for key in COMMON_KEYS)
