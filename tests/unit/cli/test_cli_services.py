"""Commands that run for years: recognised without the command-line parser, by their own words alone."""

from pathlib import Path

import pytest
from sottovoce.cli.services import requested_service, run_agent, run_vault
from sottovoce.errors import ExitCode

from tests.support.command import here


@pytest.mark.parametrize("name, service", [("agent", run_agent), ("vault", run_vault)])
def test_a_service_is_known_by_its_words(name: str, service: object) -> None:
    found = requested_service([name, "run", "--config", "device.toml"])
    assert (getattr(found, "func", None), getattr(found, "args", None)) == (service, (Path("device.toml"),))


@pytest.mark.parametrize(
    "words", ["", "agent", "agent run", "agent run --help", "agent stop --config f", "feed run --config f",
              "agent run --config f --config g", "agent run --config=f"],
)  # fmt: skip
def test_any_other_words_are_for_the_parser(words: str) -> None:
    assert requested_service(words.split()) is None


@pytest.mark.parametrize("name", ["agent", "vault"])
@pytest.mark.parametrize("form", ["--config {}", "--config={}"])
def test_with_and_without_the_parser_an_error_is_the_same(name: str, form: str, tmp_path: Path) -> None:
    ended = here(name, "run", *form.format(tmp_path / "none.toml").split())
    assert ended.code == ExitCode.CONFIGURATION
    assert ended.err.startswith("sottovoce: ")
    assert "none.toml" in ended.err
