"""Unrealistic queries: one clear line, or an honest "nothing", and never a defect."""

import pytest

from tests.support.command import document, run_here


@pytest.mark.papers
@pytest.mark.parametrize(
    "arguments, what",
    [
        (("views", "--from", 1, "--seen-by", 0, "--rounds", 10**9), "--rounds"),
        (("views", "--from", 1, "--seen-by", 0, "--agents", 100_000), "--agents"),
        (("audit", "--mechanism", "laplace", "--seed", -1), "--seed"),
    ],
)
def test_excessive_values_are_refused_by_name(arguments: tuple[object, ...], what: str) -> None:
    completed = run_here("privacy", *arguments)
    assert completed.code == 2
    assert what in completed.err
    assert len(completed.err.strip().splitlines()) == 1


def test_nearly_no_noise_guarantees_nothing() -> None:
    for event in ("gaussian:sigma=1e-200", "gaussian:sigma=1e-12,rate=0.1,count=3"):
        result = document(run_here("privacy", "compose", "--event", event, "--json").out)
        assert (result["epsilon"], result["status"]) == (None, "none")


@pytest.mark.papers
def test_nearly_no_noise_hides_nothing_from_an_observer() -> None:
    observed = document(run_here("privacy", "views", "--from", 1, "--seen-by", 0, "--sigma", "1e-200", "--json").out)
    assert (observed["local"]["mu_squared"], observed["local"]["epsilon"]) == (None, None)
