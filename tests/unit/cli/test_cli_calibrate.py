"""`sottovoce privacy calibrate` for Laplace noise, and for requests that cannot be calibrated."""

import pytest

from tests.support.command import document, run_here


@pytest.mark.parametrize("epsilon, sensitivity", [(1.0, 1.0), (0.1, 2.0), (50.0, 0.01)])
def test_laplace_noise_has_a_scale_and_needs_no_delta(epsilon: float, sensitivity: float) -> None:
    arguments = ("--mechanism", "laplace", "--epsilon", epsilon, "--sensitivity", sensitivity)
    printed = document(run_here("privacy", "calibrate", *arguments, "--json").out)
    assert printed["scale"] == pytest.approx(sensitivity / epsilon)
    statement = printed["statement"]
    assert (statement["epsilon"], statement["delta"], statement["status"]) == (epsilon, 0.0, "proved")
    words = run_here("privacy", "calibrate", *arguments).out.split()
    assert words[0] == "scale"
    assert float(words[1]) == pytest.approx(printed["scale"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", 1.0),
        ("--epsilon", 0.0, "--delta", 1e-5),
        ("--mechanism", "laplace", "--epsilon", 0.0),
        ("--mechanism", "laplace", "--epsilon", "inf"),
        ("--mechanism", "laplace", "--epsilon", 1.0, "--delta", 2.0),
        ("--mechanism", "laplace", "--epsilon", 1.0, "--sensitivity", 0.0),
        ("--mechanism", "cauchy", "--epsilon", 1.0),
    ],
    ids=str,
)
def test_impossible_requests_are_usage_errors(arguments: tuple[str | float, ...]) -> None:
    assert run_here("privacy", "calibrate", *arguments).code == 2
