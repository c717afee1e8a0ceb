"""Help: groups, an example of each command, and names that a shell completes."""

import shlex
from collections.abc import Iterator

import pytest
from sottovoce.cli.command import command_line
from sottovoce.cli.examples import EXAMPLES
from typer.core import TyperCommand, TyperGroup

from tests.support.command import run_here

HEADINGS = ("Try it on this machine", "Run a device", "Run a fleet", "Privacy", "Research")


def commands(group: TyperGroup, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, below in group.commands.items():
        if isinstance(below, TyperGroup):
            yield from commands(below, (*before, name))
        else:
            assert isinstance(below, TyperCommand)
            yield (*before, name), below


@pytest.mark.papers
def test_commands_are_grouped_in_order() -> None:
    completed = run_here().out
    positions = [completed.index(f"─ {heading} ─") for heading in HEADINGS]
    assert positions == sorted(positions)
    assert "…" not in completed, "no line is cut"


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert {" ".join(names) for names, _ in commands(command_line())} == set(EXAMPLES)
    for name, example in EXAMPLES.items():
        assert example.startswith(f"sottovoce {name}")
    assert "Example: sottovoce ledger show --state kitchen" in run_here("ledger", "show", "--help").out


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_parsed(name: str) -> None:
    words = shlex.split(EXAMPLES[name].partition(">")[0])[1:]
    result = dict(commands(command_line()))[tuple(name.split())]
    result.make_context(name, words[len(name.split()) :])


@pytest.mark.parametrize(
    "words, found",
    [
        pytest.param("testbed --learner p", ["push-sum", "pdsl"], marks=pytest.mark.papers),
        pytest.param("testbed --data b", ["breast-cancer"], marks=pytest.mark.papers),
        pytest.param("testbed --model mn", ["mnist-cnn", "mnist-mlp"], marks=pytest.mark.papers),
        pytest.param("testbed --topology r", ["ring"], marks=pytest.mark.papers),
        pytest.param("privacy audit --mechanism discrete-g", ["discrete-gaussian"], marks=pytest.mark.papers),
        pytest.param("simulate gol", ["golf"], marks=pytest.mark.papers),
        ("led", ["ledger"]),
    ],
)
def test_a_shell_completes_names(words: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", f"sottovoce {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    monkeypatch.setenv("_SOTTOVOCE_COMPLETE", "complete_bash")
    completed = run_here()
    assert completed.code == 0
    assert set(found) <= set(completed.out.split())


def test_a_parser_error_refers_to_the_command_s_help() -> None:
    assert run_here("ledger", "shwo").err == (
        "sottovoce: No such command 'shwo'. Did you mean 'show'? See `sottovoce ledger --help`.\n"
    )
    assert "See `sottovoce agent run --help`." in run_here("agent", "run").err
