"""The `--fault` specifications: every documented form, and one clear answer to every other."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.simulator import Faults, faults as module, message_faults
from sottovoce_lab.simulator.absences import Absence
from sottovoce_lab.simulator.faults import CycleEvent, CycleSpan, Sessions


@pytest.mark.parametrize(
    "specification, parsed",
    [
        ("loss=0.3", Faults(loss=0.3)),
        ("loss=0", Faults()),
        ("loss=.5", Faults(loss=0.5)),
        ("loss=1e-3", Faults(loss=0.001)),
        ("duplicate=0.05", Faults(duplicate=0.05)),
        ("duplicate=1", Faults(duplicate=1.0)),
        ("delay=50ms", Faults(delay=0.05)),
        ("delay=50ms±20ms", Faults(delay=0.05, delay_spread=0.02)),
        ("delay=50ms+-20ms", Faults(delay=0.05, delay_spread=0.02)),
        ("delay=1.5s±500ms", Faults(delay=1.5, delay_spread=0.5)),
        ("delay=2s±2s", Faults(delay=2.0, delay_spread=2.0)),
        ("vault=2s±500ms", Faults(vault=2.0, vault_spread=0.5)),
        ("kill=0.33@cycle:20", Faults(kill=CycleEvent(0.33, 20))),
        ("kill=1@cycle:1", Faults(kill=CycleEvent(1.0, 1))),
        ("reorder=0.2", Faults(reorder=0.2)),
        ("reorder=0", Faults()),
        ("partition=0.5@cycle:10-20", Faults(partition=CycleSpan(0.5, 10, 20))),
        ("partition=.25@cycle:1-2", Faults(partition=CycleSpan(0.25, 1, 2))),
        ("revoke=0.1@cycle:3", Faults(revoke=CycleEvent(0.1, 3))),
        ("renew=9", Faults(renew=9)),
        ("clock=0.25@cycle:1-2", Faults(clock=CycleSpan(0.25, 1, 2))),
        ("disk-full=0.25@cycle:1-2", Faults(disk_full=CycleSpan(0.25, 1, 2))),
        ("churn=lognormal(2,1)", Faults(churn=Sessions(2.0, 1.0))),
        ("churn=lognormal(0, 0.5)", Faults(churn=Sessions(0.0, 0.5))),
    ],
)
def test_every_form_is_parsed(specification: str, parsed: Faults) -> None:
    result = Faults.parse([specification])
    assert replace(result, delay=0.0, delay_spread=0.0) == replace(parsed, delay=0.0, delay_spread=0.0)
    assert (result.delay, result.delay_spread) == pytest.approx((parsed.delay, parsed.delay_spread))
    assert result.affects_messages == (message_faults([specification]) != [] and result != Faults())


def test_faults_can_be_combined() -> None:
    inputs = ["loss=0.3", "duplicate=0.05", "delay=50ms±20ms", "kill=0.33@cycle:20", "restart=1@cycle:20"]
    parsed = Faults.parse(inputs)
    assert (parsed.loss, parsed.duplicate, parsed.delay, parsed.delay_spread) == (0.3, 0.05, 0.05, 0.02)
    assert (parsed.kill, parsed.restart) == (CycleEvent(0.33, 20), CycleEvent(1.0, 20))
    assert Faults.parse([inputs[4], inputs[3]]) == Faults.parse(inputs[3:])
    assert Faults.parse([]) == Faults()


def test_the_documented_forms_are_parsed() -> None:
    """This covers every example in an error message, and the forms on the module's page."""
    assert Faults.parse(list(module._KINDS.values())).kill
    assert {line.partition("=")[0] for line in (module.__doc__ or "").splitlines() if "=" in line[:12]} == set(
        module._KINDS
    )


WRONG = [
    "", "loss", "loss=", "=0.3", "los=0.3", "LOSS=0.3", "partition=0.3", "partition=0.5@cycle:3",
    "partition=0.5@cycle:4-4", "partition=0.5@cycle:4-3", "partition=0.5@cycle:0-3", "partition=2@cycle:1-3",
    "partition=0.5@cycle:1-3-5", "partition=@cycle:1-3", "reorder=", "reorder=1.5", "reorder=-1", "churn=", "churn=0.1",
    "churn=lognormal", "churn=lognormal(1)", "churn=lognormal(-1,1)", "churn=lognormal(1,-1)", "churn=lognormal(99,1)",
    "churn=lognormal(1,9)", "churn=lognormal(nan,1)", "churn=weibull(1,1)", "churn=trace", "churn=trace:", "loss=x",
    "loss=-0.1", "loss=1.1", "loss=1", "loss=nan", "loss=inf", "loss=30%", "loss= 0.3", "loss=0_1", "loss=0.3@cycle:2",
    "duplicate=2", "duplicate=",
    "delay=", "delay=50", "delay=50 ms", "delay=ms", "delay=-5ms", "delay=50ms±", "delay=5ms±2", "delay=5ms±2ms±1ms",
    "delay=50ms±51ms", "delay=1us", "delay=٣ms", "kill=0.3", "kill=0.3@20", "kill=0.3@cycle:", "kill=0.3@cycle:x",
    "kill=0.3@cycle:0", "kill=0.3@cycle:-1", "kill=0.3@cycle:1.5", "kill=1.5@cycle:2", "kill=...@cycle:2",
    "kill=@cycle:2", "kill=0.3@time:2", "kill=0.3@cycle:2@cycle:3", "restart=0.3", "restart=2@cycle:3",
]  # fmt: skip


@pytest.mark.parametrize("specification", WRONG)
def test_invalid_fault_specification_shows_valid_example(specification: str) -> None:
    with pytest.raises(UsageError) as wrong:
        Faults.parse([specification])
    message = str(wrong.value)
    assert f"--fault {specification}:" in message
    kind = specification.partition("=")[0]
    kinds = "|".join(module._KINDS)
    examples = re.findall(rf"\b(?:{kinds})=(?:[0-9][^\s,;`]*|lognormal\([^)]*\))", message.split(": ", 1)[1])
    assert examples
    for example in examples:
        assert kind not in module._KINDS or example.startswith(kind)
        Faults.parse([example] if not example.startswith("restart") else ["kill=0.33@cycle:20", example])


@pytest.mark.parametrize(
    "specifications",
    [
        ["restart=1@cycle:30"],
        ["kill=0.3@cycle:20", "restart=1@cycle:19"],
        ["loss=0.1", "loss=0.1"],
        ["kill=0.3@cycle:2", "kill=0.3@cycle:4"],
    ],
)
def test_incompatible_faults_are_refused(specifications: list[str]) -> None:
    with pytest.raises(UsageError, match=r"like|for example"):
        Faults.parse(specifications)


def test_misspelt_fault_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"duplicate=0\.05$"):
        Faults.parse(["dupliacte=0.1"])


@pytest.mark.parametrize(
    "words, agents, cycles, named",
    [
        (["kill=0.5@cycle:11"], 4, 10, "kill|cycle:11"),
        (["partition=0.5@cycle:3-11"], 4, 10, "cycle:11"),
        (["partition=0.1@cycle:3-5"], 4, 10, "partition=0.1"),
        (["partition=1@cycle:3-5"], 4, 10, "partition=1"),
        (["partition=0.9@cycle:3-5"], 1, 10, "partition=0.9"),
    ],
)
def test_faults_beyond_the_run_s_size_are_refused(words: list[str], agents: int, cycles: int, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Faults.parse(words).check(agents, cycles)


def test_a_churn_trace_is_read_and_must_fit_the_fleet(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("agent,down_cycle,up_cycle\n0,2,5\n\n3, 1 ,2\n")
    faults = Faults.parse([f"churn=trace:{file}"])
    assert faults.churn == (Absence(0, 2, 5), Absence(3, 1, 2))
    assert not faults.affects_messages
    faults.check(4, 10)
    with pytest.raises(UsageError, match=r"agent 3.*\b3\b"):
        faults.check(3, 10)


@pytest.mark.parametrize(
    "text",
    [
        *("", "agent,down_cycle,up_cycle\n", "1,2\n", "1,2,3,4\n", "a,1,2\n", "1,0,2\n", "1,3,3\n", "-1,1,2\n"),
        *("1,2.5,3\n", "1,2,3\n1,2\n", "1,2,99999999999\n", "\u0663,1,2\n"),
    ],
)
def test_a_corrupt_churn_trace_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"churn=trace:.*trace\.csv: .*agent,down_cycle,up_cycle"):
        Faults.parse([f"churn=trace:{file}"])


def test_a_missing_churn_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="churn"):
        Faults.parse([f"churn=trace:{tmp_path / 'none.csv'}"])
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="churn"):
        Faults.parse([f"churn=trace:{tmp_path / 'binary'}"])


def test_only_message_faults_are_passed_to_the_agents() -> None:
    words = ["kill=1@cycle:3", "loss=0.1", "churn=trace:missing.csv", "partition=0.5@cycle:1-3", "reorder=0.1"]
    assert message_faults(words) == ["loss=0.1", "partition=0.5@cycle:1-3", "reorder=0.1"]
