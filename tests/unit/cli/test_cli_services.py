"""Commands that run for years: recognised without the command-line parser, by their own words alone."""

from pathlib import Path

import pytest
from sottovoce.cli.services import requested_service, run_agent, run_vault
from sottovoce.errors import ExitCode

from tests.support.command import run_here


@pytest.mark.parametrize("name, service", [("agent", run_agent), ("vault", run_vault)])
def test_a_service_is_recognised_by_its_arguments(name: str, service: object) -> None:
    result = requested_service([name, "run", "--config", "device.toml"])
    assert (getattr(result, "func", None), getattr(result, "args", None)) == (service, (Path("device.toml"),))


@pytest.mark.parametrize(
    "words", ["", "agent", "agent run", "agent run --help", "agent stop --config f", "feed run --config f",
              "agent run --config f --config g", "agent run --config=f"],
)  # fmt: skip
def test_other_arguments_are_left_to_the_parser(words: str) -> None:
    assert requested_service(words.split()) is None


@pytest.mark.parametrize("name", ["agent", "vault"])
@pytest.mark.parametrize("form", ["--config {}", "--config={}"])
def test_errors_are_equal_with_and_without_the_parser(name: str, form: str, tmp_path: Path) -> None:
    completed = run_here(name, "run", *form.format(tmp_path / "none.toml").split())
    assert completed.code == ExitCode.CONFIGURATION
    assert completed.err.startswith("sottovoce: ")
    assert "none.toml" in completed.err
