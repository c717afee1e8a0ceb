"""Printed schema, and the one example of a complete configuration."""

import json
import tomllib
from pathlib import Path

from sottovoce.config import WholeConfig, config_from_tables
from sottovoce.learning.registry import ALGORITHMS, DEFAULT

from tests.support.command import run_here


def test_the_schema_is_a_json_schema_that_describes_every_key() -> None:
    completed = run_here("config", "schema")
    assert (completed.code, completed.err) == (0, "")
    schema = json.loads(completed.out)
    assert schema["$ref"] == "#/$defs/AgentConfig"
    tables = schema["$defs"]["AgentConfig"]
    assert set(tables["properties"]) == set(WholeConfig.__struct_fields__)
    learners = tables["properties"]["learner"]["discriminator"]
    assert (learners["propertyName"], set(learners["mapping"])) == ("name", set(ALGORITHMS))
    assert tables["required"] == ["agent", "data"]
    for name, definition in schema["$defs"].items():
        assert definition["additionalProperties"] is False, f"{name} takes no unknown key"
    epsilon = schema["$defs"]["PrivacySection"]["properties"]["epsilon"]
    assert (epsilon["type"], epsilon["exclusiveMinimum"], epsilon["default"]) == ("number", 0, 2.0)


def test_a_correct_file_is_reported_as_correct(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('agent = {state = "a"}\ndata = {source="digits", features=64, classes=10, expected_records=9}\n')
    completed = run_here("config", "check", path)
    assert (completed.code, completed.out) == (0, f"{path}: correct\n")
    assert "state directory" in completed.err, "a file may be checked before the device joins"
    assert config_from_tables(tomllib.loads(path.read_text()), "x").learner.name == DEFAULT
