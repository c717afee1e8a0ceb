"""The `--fault` specifications: every documented form, and one clear answer to every other."""

import re

import pytest
from sottovoce.errors import UsageError
from sottovoce.simulate import Faults
from sottovoce.simulate import faults as module
from sottovoce.simulate.faults import AtCycle


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
        ("kill=0.33@cycle:20", Faults(kill=AtCycle(0.33, 20))),
        ("kill=1@cycle:1", Faults(kill=AtCycle(1.0, 1))),
    ],
)
def test_every_form(specification: str, parsed: Faults) -> None:
    found = Faults.parse([specification])
    assert (found.loss, found.duplicate, found.kill) == (parsed.loss, parsed.duplicate, parsed.kill)
    assert (found.delay, found.delay_spread) == pytest.approx((parsed.delay, parsed.delay_spread))
    assert found.on_messages == bool(found.loss or found.duplicate or found.delay)


def test_faults_add_up() -> None:
    given = ["loss=0.3", "duplicate=0.05", "delay=50ms±20ms", "kill=0.33@cycle:20", "restart=1@cycle:20"]
    parsed = Faults.parse(given)
    assert (parsed.loss, parsed.duplicate, parsed.delay, parsed.delay_spread) == (0.3, 0.05, 0.05, 0.02)
    assert (parsed.kill, parsed.restart) == (AtCycle(0.33, 20), AtCycle(1.0, 20))
    assert Faults.parse([given[4], given[3]]) == Faults.parse(given[3:])
    assert Faults.parse([]) == Faults()


def test_the_documented_forms_parse() -> None:
    """Every example that an error message gives, and the forms of the module's page, are accepted."""
    assert Faults.parse(list(module._KINDS.values())).kill
    assert {line.partition("=")[0] for line in (module.__doc__ or "").splitlines() if "=" in line[:12]} == set(
        module._KINDS
    )


WRONG = [
    "", "loss", "loss=", "=0.3", "los=0.3", "LOSS=0.3", "partition=0.3", "loss=x", "loss=-0.1", "loss=1.1", "loss=1",
    "loss=nan", "loss=inf", "loss=30%", "loss= 0.3", "loss=0_1", "loss=0.3@cycle:2", "duplicate=2", "duplicate=",
    "delay=", "delay=50", "delay=50 ms", "delay=ms", "delay=-5ms", "delay=50ms±", "delay=5ms±2", "delay=5ms±2ms±1ms",
    "delay=50ms±51ms", "delay=1us", "delay=٣ms", "kill=0.3", "kill=0.3@20", "kill=0.3@cycle:", "kill=0.3@cycle:x",
    "kill=0.3@cycle:0", "kill=0.3@cycle:-1", "kill=0.3@cycle:1.5", "kill=1.5@cycle:2", "kill=...@cycle:2",
    "kill=@cycle:2", "kill=0.3@time:2", "kill=0.3@cycle:2@cycle:3", "restart=0.3", "restart=2@cycle:3",
]  # fmt: skip


@pytest.mark.parametrize("specification", WRONG)
def test_every_wrong_form_is_answered_with_one_that_is_right(specification: str) -> None:
    with pytest.raises(UsageError) as wrong:
        Faults.parse([specification])
    message = str(wrong.value)
    assert f"--fault {specification}:" in message
    kind = specification.partition("=")[0]
    examples = re.findall(r"\b(?:loss|duplicate|delay|kill|restart)=[0-9][^\s,;`]*", message.split(": ", 1)[1])
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
def test_faults_that_do_not_go_together(specifications: list[str]) -> None:
    with pytest.raises(UsageError, match=r"like|for example"):
        Faults.parse(specifications)


def test_a_slip_of_the_finger_is_answered_with_what_was_meant() -> None:
    with pytest.raises(UsageError, match=r"write it like duplicate=0\.05$"):
        Faults.parse(["dupliacte=0.1"])
