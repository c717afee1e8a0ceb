"""Unrealistic queries: one clear line, or an honest "nothing", and never a defect."""

import pytest

from tests.support.command import here
from tests.support.processes import document


@pytest.mark.parametrize(
    "arguments, what",
    [
        (("views", "--from", 1, "--seen-by", 0, "--rounds", 10**9), "--rounds"),
        (("views", "--from", 1, "--seen-by", 0, "--agents", 100_000), "--agents"),
        (("audit", "--mechanism", "laplace", "--seed", -1), "--seed"),
    ],
)
def test_too_much_is_refused_by_name(arguments: tuple[object, ...], what: str) -> None:
    ended = here("privacy", *arguments)
    assert ended.code == 2
    assert what in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_next_to_no_noise_promises_nothing() -> None:
    for event in ("gaussian:sigma=1e-200", "gaussian:sigma=1e-12,rate=0.1,count=3"):
        found = document(here("privacy", "compose", "--event", event, "--json").out)
        assert (found["epsilon"], found["status"]) == (None, "none")
    seen = document(here("privacy", "views", "--from", 1, "--seen-by", 0, "--sigma", "1e-200", "--json").out)
    assert (seen["local"]["mu_squared"], seen["local"]["epsilon"]) == (None, None)
