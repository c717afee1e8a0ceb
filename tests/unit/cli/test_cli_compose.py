"""`sottovoce privacy compose` and `views`: one document each, a small notation, and one line for each error."""

import json
from pathlib import Path

import pytest

from tests.support.command import document, run_here

SAMPLED = "gaussian:sigma=1,rate=0.01,count=1000"
CHARGE = (
    '{"event":"sampled-gaussian","batch":10,"of":1000,"neighbouring":"add-remove","sampling":"poisson",'
    '"sensitivity_squared":16777216,"sigma":4096,"units":{"spans":[[0,9223372036854775807]]},"count":1000}'
)


def run_compose(*events: str, more: tuple[object, ...] = ()) -> dict[str, object]:
    arguments = [word for event in events for word in ("--event", event)]
    return document(run_here("privacy", "compose", *arguments, *more, "--json").out)


@pytest.mark.parametrize(
    "event, epsilon",
    [
        ("gaussian:sigma=2,count=10", 7.51128),
        ("gaussian:sigma=1,neighbouring=replace-one,sensitivity=0.5", 4.37718),
        ("gaussian:sigma=1,rate=1", 4.37718),
        (SAMPLED, 1.82824),
        ("gaussian noise_multiplier=1 q=0.01 T=1000", 1.82824),
        ("gaussian: sigma=1, sampling_probability=0.01, steps=1000, sampling=poisson", 1.82824),
        ("gaussian:sigma=2,sensitivity=2,batch=10,of=1000,sampling=poisson,count=1000", 1.82824),
        ("gaussian:sigma=1,rate=0.01,count=1000,neighbouring=replace-one", 2.84345),
        ('{"mechanism":"gaussian","sigma":1,"rate":0.01,"count":1000}', 1.82824),
        (CHARGE, 1.82824),
        ("laplace:scale=2,count=3", 1.5),
        ("discrete-laplace:scale=4,sensitivity=2", 0.5),
        ("discrete-gaussian:sigma=5,sensitivity=3", 4.37718),
        ("pure:epsilon=0.5", 0.5),
    ],
)
def test_releases_have_a_cost(event: str, epsilon: float) -> None:
    result = run_compose(event)
    assert result["epsilon"] == pytest.approx(epsilon, rel=2e-3)
    assert (result["delta"], result["status"], result["events"]) == (1e-5, "proved", [event])


def test_a_fixed_batch_size_implies_replace_one() -> None:
    result = run_compose("gaussian:sigma=2,batch=10,of=1000,count=100", "gaussian:sigma=40")
    assert result["neighbouring"] == "replace-one"
    assert 0.7 < float(str(result["epsilon"])) < 0.9


def test_delta_at_epsilon() -> None:
    assert run_compose("gaussian:sigma=2", more=("--epsilon", 1))["delta"] == pytest.approx(0.00682959, rel=1e-6)
    exact = run_compose("discrete-gaussian:sigma=2,dimensions=1", more=("--epsilon", 1))["delta"]
    assert exact == pytest.approx(0.00724878, rel=1e-5)


def test_an_unproved_release_is_infinite() -> None:
    for event in ("unproved:count=2", "discrete-gaussian:sigma=4", "gaussian:sigma=0.01,rate=0.5"):
        result = run_compose(event, "gaussian:sigma=2")
        assert (result["epsilon"], result["status"]) == (None, "none")
    assert "nothing is promised" in run_here("privacy", "compose", "--event", "unproved").out


def test_human_readable_output() -> None:
    out = run_here("privacy", "compose", "--event", SAMPLED, "--event", "pure:epsilon=0.5").out
    assert "at δ = 1e-05, add-remove (privacy loss distribution)" in out


@pytest.mark.parametrize(
    "event, words",
    [
        ("cauchy:scale=1", "`cauchy`"),
        ("gaussian", "sigma"),
        ("gaussian:sigma", "key=value"),
        ("gaussian:sigma=-1", "positive"),
        ("gaussian:sigma=nan", "positive"),
        ("gaussian:sigma=two", "number"),
        ("gaussian:sigma=2,sigma=3", "set twice"),
        ("gaussian:sigma=2,noise_multiplier=3", "set twice"),
        ("gaussian:sigma=2,scale=1", "`scale`"),
        ("gaussian:sigma=2,count=0.5", "whole"),
        ("gaussian:sigma=2,rate=1.5", "(0, 1]"),
        ("gaussian:sigma=2,batch=5", "`batch` and `of` must be set together"),
        ("gaussian:sigma=2,batch=5,of=4", "(0, 1]"),
        ("gaussian:sigma=2,batch=5,of=9,rate=0.1", "not both"),
        ("gaussian:sigma=2,sampling=poisson", "rate"),
        ("gaussian:sigma=2,batch=1,of=9,sampling=shuffled", "use poisson"),
        ("gaussian:sigma=2,batch=1,of=9,neighbouring=add-remove", "reveals"),
        ("discrete-gaussian:sigma=9,sensitivity=0.5", "whole number"),
        ("{", "JSON"),
        ('{"event":"sampled-gaussian"}', "unknown terms"),
    ],
)
def test_an_invalid_release_is_a_usage_error(event: str, words: str) -> None:
    completed = run_here("privacy", "compose", "--event", event)
    assert completed.code == 2
    assert words in completed.err


@pytest.mark.parametrize("option, value", [("--delta", 0), ("--delta", "nan"), ("--epsilon", -1), ("--epsilon", "inf")])
def test_an_invalid_query_is_a_usage_error(option: str, value: object) -> None:
    completed = run_here("privacy", "compose", "--event", SAMPLED, option, value)
    assert (completed.code, option.lstrip("-") in completed.err) == (2, True)


def test_relations_cannot_be_mixed() -> None:
    completed = run_here(
        "privacy", "compose",
        "--event", "gaussian:sigma=2,neighbouring=add-remove", "--event", "gaussian:sigma=2,batch=1,of=9",
    )  # fmt: skip
    assert completed.code == 2
    assert "compose" in completed.err


@pytest.mark.papers
def test_views_on_a_ring() -> None:
    options = ("--topology", "ring", "--agents", 8, "--rounds", 10, "--noise", "fresh", "--from", 2)
    result = document(run_here("privacy", "views", *options, "--seen-by", 0, "--json").out)
    assert result["pairwise"]["mu_squared"] == pytest.approx(2.07, abs=0.005)
    assert (result["local"]["mu_squared"], result["central"]["mu_squared"]) == (10.0, 1.25)
    assert all(result[view]["assumption"] for view in ("local", "pairwise", "central"))
    both = document(run_here("privacy", "views", *options, "--seen-by", "1,3", "--epsilon", 1, "--json").out)
    assert both["coalition"]["epsilon"] == pytest.approx(both["local"]["epsilon"])
    assert run_here("privacy", "views", *options, "--seen-by", "0").out.startswith(
        "local     μ² 10, ε 17.86 at δ = 1e-05"
    )


@pytest.mark.papers
def test_views_on_a_graph_from_a_file(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("0,1\n1,2\n")
    options = ("--topology", edges, "--from", 0, "--seen-by", 2, "--noise", "once", "--json")
    one, two = (json.loads(run_here("privacy", "views", *options, "--rounds", rounds).out) for rounds in (1, 2))
    assert (one["pairwise"]["mu_squared"], one["pairwise"]["epsilon"]) == (0.0, 0.0)
    assert two["pairwise"]["mu_squared"] == pytest.approx(1)


@pytest.mark.papers
@pytest.mark.parametrize(
    "changes, words",
    [
        (("--topology", "torus"), "torus"),
        (("--topology", "no.csv"), "not a file"),
        (("--seen-by", "all"), "list"),
        (("--seen-by", "2"), "observer"),
        (("--sigma", 0), "positive"),
        (("--sigma", 1, "--epsilon", 1), "one of"),
        (("--delta", 0), "between 0 and 1"),
        (("--epsilon", -1), "epsilon must be"),
    ],
    ids=str,
)
def test_invalid_views_are_refused(changes: tuple[object, ...], words: str) -> None:
    completed = run_here("privacy", "views", "--from", 2, "--seen-by", 0, *changes)
    assert completed.code == 2
    assert words in completed.err
