"""`--set KEY=VALUE`: parsed alike wherever it is used."""

import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.testbed.assignments import parse_assignments


def test_values_are_toml_or_strings() -> None:
    result = parse_assignments(["a.b=1", "c=[0.0, 2]", "d=npz:x.npz#meter=house", "e=inf", "f=true"], "a=1")
    assert result == {"a.b": 1, "c": [0.0, 2], "d": "npz:x.npz#meter=house", "e": float("inf"), "f": True}


@pytest.mark.parametrize("text", ["a", "a=", ""])
def test_an_invalid_assignment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--set KEY=VALUE.*--set learner\.clip=0\.5"):
        parse_assignments([text], "learner.clip=0.5")


def test_a_key_can_be_set_only_once_under_any_name() -> None:
    with pytest.raises(UsageError, match=r"--set epsilon=2: .*\b1\b"):
        parse_assignments(["epsilon=1", "epsilon=2"], "a=1")
    with pytest.raises(UsageError, match=r"data\.source.*'digits'"):
        parse_assignments(["data=digits", "data.source=iris"], "a=1", {"data": "data.source"})
