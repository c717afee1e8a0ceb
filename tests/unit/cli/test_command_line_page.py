"""The page on the command line names every command and option, with tables of options from the code."""

import re
from typing import Any

import pytest
from sottovoce.cli.command import command_line

from tests.support.option_tables import PAGE, filled


@pytest.mark.papers
def test_the_tables_of_options_are_those_of_the_commands() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(re.findall("options of [a-z ]+ -->", page)) >= 10
    assert filled(page) == page, "run `python -m tests.support.option_tables`"


def test_every_command_and_every_option_is_named() -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands: Any = command_line().commands
    for name, group in commands.items():
        section = page.split(f"## sottovoce {name}\n")[1].split("\n## ")[0]
        for command in getattr(group, "commands", {name: group}).values():
            if command is not group:
                assert f"{name} {command.name}" in page
            for option in command.params:
                if option.param_type_name == "option" and "--help" not in option.opts:
                    assert max(option.opts, key=len) in section, f"{name} {command.name} {option.opts}"
