"""Verdicts on a claim: it holds, fails, or is undecided, based only on paired runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sottovoce_lab.papers.cells import Cells, format_measure, half_interval
from sottovoce_lab.papers.specification import Claim
from sottovoce_lab.papers.verdicts import compute_findings, compute_verdict

from tests.unit.papers.made_up import made_up, spec

AHEAD = Claim(claim="", series="good", check="ahead", than=["bad"])


def swapped(cells: Cells) -> Cells:
    other = {"good": "bad", "bad": "good"}
    return {(panel, other[series], x, y): cell for (panel, series, x, y), cell in cells.items()}


@pytest.mark.parametrize(
    "claim, verdict",
    [
        (AHEAD, "holds"),
        (Claim(claim="", series="good", check="ahead", than=["bad"], margin=0.19), "holds"),
        (Claim(claim="", series="good", check="ahead", than=["bad"], margin=0.2), "undecided"),
        (Claim(claim="", series="good", check="ahead", than=["bad"], margin=0.22), "fails"),
        (Claim(claim="", series="bad", check="ahead", than=["good"]), "fails"),
        (Claim(claim="", series="good", check="not-behind", than=["bad"]), "holds"),
        (Claim(claim="", series="bad", check="not-behind", than=["good"], margin=0.1), "fails"),
        (Claim(claim="", series="bad", check="not-behind", than=["good"], margin=0.3), "holds"),
        (Claim(claim="", series="good", check="at-least", bound=0.70), "holds"),
        (Claim(claim="", series="good", check="at-least", bound=0.73), "undecided"),
        (Claim(claim="", series="good", check="at-least", bound=0.80), "fails"),
        (Claim(claim="", series="good", check="at-least", bound=0.73, x=[4.0]), "holds"),
        (Claim(claim="", series="good", check="rises"), "holds"),
        (Claim(claim="", series="good", check="rises", margin=0.04), "fails"),
        (Claim(claim="", series="good", check="falls"), "fails"),
        (Claim(claim="", series="good", check="falls", margin=-0.04), "holds"),
    ],
)
def test_a_verdict_follows_from_the_runs(claim: Claim, verdict: str) -> None:
    (found,) = compute_findings(spec(claim), made_up())
    assert found.verdict == verdict
    assert found.seeds == 5
    assert found.evidence


@pytest.mark.parametrize("check", ["ahead", "not-behind"])
def test_swapping_the_series_flips_the_verdict(check: str) -> None:
    claim = Claim(claim="", series="good", check=check, than=["bad"])  # type: ignore[arg-type]
    (there,), (back,) = compute_findings(spec(claim), made_up()), compute_findings(spec(claim), swapped(made_up()))
    assert (there.verdict, back.verdict) == ("holds", "fails")


@pytest.mark.parametrize("seeds", [1, 2, 4])
@pytest.mark.parametrize("check", ["ahead", "not-behind", "at-least", "rises", "falls"])
def test_fewer_than_five_seeds_leave_verdict_undecided(seeds: int, check: str) -> None:
    than = ["bad"] if check in ("ahead", "not-behind") else []
    claim = Claim(claim="", series="good", check=check, than=than)  # type: ignore[arg-type]
    (found,) = compute_findings(spec(claim), made_up(seeds))
    assert (found.verdict, found.seeds) == ("undecided", seeds)


@pytest.mark.parametrize("majority, verdict", [(0.9, "undecided"), (0.6, "holds"), (None, "holds")])
@pytest.mark.parametrize("check", ["ahead", "not-behind"])
def test_claims_between_series_at_majority_class_are_undecided(
    majority: float | None, verdict: str, check: str
) -> None:
    claim = Claim(claim="", series="good", check=check, than=["bad"])  # type: ignore[arg-type]
    (found,) = compute_findings(spec(claim), made_up(majority=majority))
    assert found.verdict == verdict


def test_results_equal_to_majority_class_are_undecided() -> None:
    """Three predictors of the majority class, as on Covertype without standardised features."""
    same = {where: replace(cell, measures=np.full(5, 0.4868), majority=0.4868) for where, cell in made_up().items()}
    (found,) = compute_findings(spec(Claim(claim="", series="good", check="not-behind", than=["bad"])), same)
    assert found.verdict == "undecided"


def test_a_smaller_loss_is_better() -> None:
    (found,) = compute_findings(spec(AHEAD, measure="loss_mean"), made_up())
    assert found.verdict == "fails"


def test_a_printed_value_is_matched_within_the_band() -> None:
    printed = {"made": {"good": {"1.0": 0.735, "4.0": 0.9}}}
    found = compute_findings(spec(printed=printed, band=0.03), made_up())
    assert [finding.verdict for finding in found] == ["holds", "fails"]
    assert [finding.verdict for finding in compute_findings(spec(printed=printed, band=0.03), made_up(3))] == [
        "undecided"
    ] * 2
    assert compute_findings(spec(printed=printed), made_up()) == []


def test_a_claim_without_runs_is_not_checked() -> None:
    assert compute_findings(spec(Claim(claim="", series="good", check="at-least", x=[77.0])), made_up()) == []


def test_an_interval_needs_two_runs_and_a_verdict_five() -> None:
    assert math.isnan(half_interval(np.array([0.5])))
    assert half_interval(np.array([0.71, 0.73, 0.75])) == pytest.approx(4.303 * 0.02 / math.sqrt(3), rel=1e-3)
    assert compute_verdict(np.full(4, 1.0), 0.0) == "undecided"
    assert compute_verdict(np.full(5, 1.0), 0.0) == "holds"
    assert compute_verdict(np.full(5, -1.0), 0.0) == "fails"


@pytest.mark.parametrize(
    "value, sign, shown",
    [(0.8124, "", "0.812"), (-0.02, "+", "-0.020"), (6.72e17, "", "6.7e+17"), (-36945.0, "+", "-3.7e+04")],
)
def test_a_divergent_loss_is_shown_with_a_power_of_ten(value: float, sign: str, shown: str) -> None:
    assert format_measure(value, sign) == shown
