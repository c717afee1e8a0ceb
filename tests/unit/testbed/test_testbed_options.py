"""Testbed's command line: its refusals, its hints, and the resulting configuration."""

import math
from typing import Any

import pytest
from sottovoce.errors import ConfigError, PrivacyError, SottovoceError, UsageError
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.options import Options, parse_settings

from tests.support.command import run_here


def options(**changes: Any) -> Options:
    usual: dict[str, Any] = {
        "agents": 4,
        "learner": "clipd2p",
        "fidelity": "sound",
        "model": None,
        "data": "digits",
        "transport": "grpc",
        "epsilon": 2.0,
        "delta": 1e-5,
        "cycles": 60,
        "period": 0.5,
        "topology": "ring",
        "seed": 0,
        "faults": Faults(),
        "fault_specs": [],
    }
    return Options(**{**usual, "settings": {}, **changes})


def make_options(**changes: Any) -> Any:
    data = {"source": "digits", "features": 64, "classes": 10, "expected_records": 99}
    return options(**changes).configuration(agent={"state": "a"}, data=data)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"agents": 0}, r"fleet.*agent"),
        ({"cycles": 0}, "cycle"),
        ({"period": 0.0}, r"\b0\.001\b.*3600 seconds"),
        ({"period": math.nan}, r"\b0\.001\b.*3600 seconds"),
        ({"seed": -1}, "0 or more"),
        ({"topology": "torus"}, "exponential, ring, star"),
        ({"epsilon": 0.0}, "positive"),
        ({"epsilon": math.nan}, "positive"),
        ({"delta": 1.0}, r"\b0\b.*\b1\b"),
        ({"delta": math.nan}, r"\b0\b.*\b1\b"),
    ],
)
def test_an_impossible_option_is_refused_with_a_hint(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        options(**changes)


@pytest.mark.parametrize("value", [None, False, "no", "False", 0, 1, "true", [True]])
def test_allow_unproved_requires_true(value: Any) -> None:
    with pytest.raises(PrivacyError, match=r"noise.*ε"):
        options(learner="push-sum", settings={} if value is None else {"privacy.allow_unproved": value})
    allowed = options(learner="push-sum", settings={"privacy.allow_unproved": True})
    assert allowed.is_noiseless
    assert allowed.budget.epsilon is None


@pytest.mark.parametrize(
    "assignment, words",
    [
        ("learner.clip", "--set KEY=VALUE"),
        ("learner.clip=", "--set KEY=VALUE"),
        ("learner.cilp=1", "`learner.clip`"),
        ("zzz=1", "table name"),
        ("learner.lr=1", "`learner.step_size`"),
        ("learner.zzz=1", "`learner`"),
        ("period=1", "--period"),
        ("data=digits", "--data"),
        ("agent.state=x", "sets this key itself"),
        ("privacy.epsilon=1", "--epsilon"),
        ("transport.listen=h:1", "itself"),
    ],
)
def test_an_invalid_setting_is_refused_with_a_hint(assignment: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_settings([assignment])
    completed = run_here("testbed", "--transport", "memory", "--set", assignment)
    assert (completed.code, completed.err.count("\n")) == (2, 1)
    assert words in completed.err


def test_a_testbed_lifts_the_write_quotas_that_are_not_set() -> None:
    assert make_options().agent.bytes_per_day == 2**50
    assert options().lifted_quotas == ("agent.bytes_per_day", "ledger.bytes_per_day")
    settings = parse_settings(["agent.bytes_per_day=1048576"])
    configuration = make_options(settings=settings)
    assert (configuration.agent.bytes_per_day, configuration.ledger.bytes_per_day) == (2**20, 2**50)
    assert options(settings=settings).lifted_quotas == ("ledger.bytes_per_day",)
    assert options(transport="memory").lifted_quotas == ()


@pytest.mark.parametrize(
    "fault, words",
    [
        ("los=0.3", "loss=0.3"),
        ("loss=1.5", "'1.5'"),
        ("kill=50%", "'50%'"),
        ("kill=0.5", "kill=0.33@cycle:20"),
        ("delay=50", "delay=50ms±20ms"),
        ("restart=1@cycle:3", "--fault kill="),
    ],
)
def test_an_invalid_fault_is_refused_with_an_example(fault: str, words: str) -> None:
    completed = run_here("testbed", "--transport", "memory", "--fault", fault)
    assert (completed.code, completed.err.count("\n")) == (2, 1)
    assert words in completed.err


def test_settings_are_toml_values_or_words() -> None:
    result = parse_settings(
        ["learner.clip=0.5", "data.bounds=[0, 1]", "data.partition=dirichlet(0.25)", "learner.steps=3"]
    )
    assert result == {
        "learner.clip": 0.5,
        "data.bounds": [0, 1],
        "data.partition": "dirichlet(0.25)",
        "learner.steps": 3,
    }


def test_the_command_line_becomes_a_configuration() -> None:
    config = make_options(
        settings={"learner.clip": 0.25, "privacy.neighbouring": "replace-one", "transport.timeout": 3}
    )
    assert (config.learner.clip, config.learner.period, config.transport.timeout) == (0.25, 0.5, 3.0)
    assert (config.privacy.epsilon, config.privacy.neighbouring) == (2.0, "replace-one")
    assert make_options(epsilon=None).privacy.epsilon == math.inf


@pytest.mark.parametrize("value", ["few", True, 1.5, -1])
def test_the_number_of_steps_is_checked_like_any_other_key(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"--set.*learner\.steps"):
        make_options(settings={"learner.steps": value})
    assert make_options(settings={"learner.steps": 3}).learner.steps == 3


@pytest.mark.parametrize("cycles, agents, steps", [(1, 4, 1), (10, 2, 6), (60, 12, 48), (60, 3000, 36), (1000, 4, 800)])
def test_the_last_cycles_only_mix(cycles: int, agents: int, steps: int) -> None:
    assert make_options(cycles=cycles, agents=agents).learner.steps == steps


def test_refusals_do_not_exit_as_internal_errors() -> None:
    for changes in ({"agents": 0}, {"learner": "push-sum"}):
        with pytest.raises(SottovoceError) as error:
            options(**changes)
        assert error.value.exit_code != 8
