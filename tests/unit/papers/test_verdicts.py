"""Verdicts: a claim holds, fails or is open, and a printed value is reproduced, not reproduced or open."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sottovoce_lab.papers.cells import Cell, Cells, build_cells, format_measure, half_interval, seeds_to_decide
from sottovoce_lab.papers.runs import RunPosition
from sottovoce_lab.papers.specification import Cause, Claim
from sottovoce_lab.papers.verdicts import UNKNOWN_CAUSE, compute_findings, compute_side

from tests.unit.papers.made_up import made_up, outcome, spec

AHEAD = Claim(claim="", series="good", check="ahead", than=["bad"])


def swapped(cells: Cells) -> Cells:
    other = {"good": "bad", "bad": "good"}
    return {(panel, other[series], x, y): cell for (panel, series, x, y), cell in cells.items()}


@pytest.mark.parametrize(
    "claim, verdict",
    [
        (AHEAD, "holds"),
        (Claim(claim="", series="good", check="ahead", than=["bad"], margin=0.19), "holds"),
        (Claim(claim="", series="good", check="ahead", than=["bad"], margin=0.2), "open"),
        (Claim(claim="", series="good", check="ahead", than=["bad"], margin=0.22), "fails"),
        (Claim(claim="", series="bad", check="ahead", than=["good"]), "fails"),
        (Claim(claim="", series="good", check="not-behind", than=["bad"]), "holds"),
        (Claim(claim="", series="bad", check="not-behind", than=["good"], margin=0.1), "fails"),
        (Claim(claim="", series="bad", check="not-behind", than=["good"], margin=0.3), "holds"),
        (Claim(claim="", series="good", check="at-least", bound=0.70), "holds"),
        (Claim(claim="", series="good", check="at-least", bound=0.73), "open"),
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


@pytest.mark.parametrize("seeds, verdict", [(1, "open"), (2, "open"), (3, "holds"), (4, "holds")])
@pytest.mark.parametrize("check", ["ahead", "not-behind", "at-least", "rises"])
def test_three_seeds_suffice_for_a_verdict(seeds: int, verdict: str, check: str) -> None:
    than = ["bad"] if check in ("ahead", "not-behind") else []
    claim = Claim(claim="", series="good", check=check, than=than)  # type: ignore[arg-type]
    (found,) = compute_findings(spec(claim), made_up(seeds))
    assert (found.verdict, found.seeds) == (verdict, seeds)


@pytest.mark.parametrize("majority, verdict", [(0.9, "open"), (0.6, "holds"), (None, "holds")])
@pytest.mark.parametrize("check", ["ahead", "not-behind", "rises"])
def test_claims_about_series_at_the_majority_class_are_open(majority: float | None, verdict: str, check: str) -> None:
    than = [] if check == "rises" else ["bad"]
    claim = Claim(claim="", series="good", check=check, than=than)  # type: ignore[arg-type]
    (found,) = compute_findings(spec(claim), made_up(majority=majority))
    assert found.verdict == verdict
    (lost,) = compute_findings(spec(claim, measure="loss_mean"), made_up(majority=majority))
    assert lost.verdict == ("holds" if check == "rises" else "fails"), "an accuracy is no level for a loss"


def test_results_equal_to_majority_class_are_open() -> None:
    """Three predictors of the majority class, as on Covertype without standardised features."""
    same = {where: replace(cell, measures=np.full(5, 0.4868), majority=0.4868) for where, cell in made_up().items()}
    (found,) = compute_findings(spec(Claim(claim="", series="good", check="not-behind", than=["bad"])), same)
    assert found.verdict == "open"


def test_a_smaller_loss_is_better() -> None:
    (found,) = compute_findings(spec(AHEAD, measure="loss_mean"), made_up())
    assert found.verdict == "fails"


def test_a_printed_value_is_reproduced_within_the_band() -> None:
    printed = {"made": {"good": {"1.0": 0.735, "4.0": 0.9}}}
    described = spec(printed=printed, band=0.03, causes=[Cause(cause="Unlike data.", series=["good"], x=["4.0"])])
    found = compute_findings(described, made_up())
    assert [finding.verdict for finding in found] == ["reproduced", "not reproduced"]
    assert [finding.cause for finding in found] == ["", "Unlike data."]
    across = spec(printed={"made": {"good": {"1.0": 0.755}}}, band=0.03)
    assert [finding.verdict for finding in compute_findings(across, made_up(3))] == ["open"], "the interval is wider"
    assert [finding.verdict for finding in compute_findings(described, made_up(2))] == ["open"] * 2
    assert compute_findings(spec(printed=printed), made_up()) == []


@pytest.mark.parametrize("cause", ["", "The paper tests on training records."])
def test_a_claim_that_fails_has_a_cause_and_no_other(cause: str) -> None:
    claims = [
        Claim(claim="wrong", series="bad", check="ahead", than=["good"], cause=cause),
        Claim(claim="right", series="good", check="ahead", than=["bad"], cause=cause),
    ]
    found = compute_findings(spec(*claims), made_up())
    assert [finding.cause for finding in found] == [cause or UNKNOWN_CAUSE, ""]


def test_a_claim_without_runs_is_open() -> None:
    (found,) = compute_findings(spec(Claim(claim="", series="good", check="at-least", x=[77.0])), made_up())
    assert (found.verdict, found.seeds) == ("open", 0)


def test_a_bound_on_a_loss_is_an_upper_bound() -> None:
    claim = Claim(claim="", series="good", check="at-least", bound=0.8)
    for measure, verdict in (("loss_mean", "holds"), ("accuracy_mean", "fails")):
        (found,) = compute_findings(spec(claim, measure=measure), made_up())
        assert found.verdict == verdict


def test_an_interval_needs_three_runs_and_stays_within_the_measure_s_range() -> None:
    assert math.isnan(half_interval(np.array([0.5])))
    assert half_interval(np.array([0.71, 0.73, 0.75])) == pytest.approx(4.303 * 0.02 / math.sqrt(3), rel=1e-3)
    sides = [compute_side(np.full(seeds, value), 0.0) for seeds, value in ((2, 1.0), (3, 1.0), (3, -1.0))]
    assert sides == ["open", "above", "below"]
    wide = Cell(np.array([0.5, 0.9, 1.0]), {}, {}, None)
    low, high = wide.interval("accuracy_mean") or (math.nan, math.nan)
    assert low == pytest.approx(0.8 - half_interval(wide.measures))
    assert high == 1.0
    assert (wide.interval("loss_mean") or (0, 0))[1] > 1
    assert Cell(np.array([0.5, 0.9]), {}, {}, None).interval("accuracy_mean") is None


@pytest.mark.parametrize("check", ["ahead", "not-behind", "rises"])
def test_a_comparison_is_paired_over_the_seeds_that_both_cells_have(check: str) -> None:
    claim = Claim(claim="", series="good", check=check, than=[] if check == "rises" else ["bad"])  # type: ignore[arg-type]
    cells = made_up(4)
    longer = {key: replace(cell, measures=np.append(cell.measures, 0.0)) for key, cell in cells.items()}
    mixed = {key: (longer if key[1] == "good" and key[2] == 4.0 else cells)[key] for key in cells}
    (found,), (expected,) = compute_findings(spec(claim), mixed), compute_findings(spec(claim), cells)
    assert (found.verdict, found.seeds, found.ours) == (expected.verdict, 4, expected.ours)


def needs_of(claim: Claim, cells: Cells) -> str:
    (found,) = compute_findings(spec(claim), cells)
    assert found.verdict == "open"
    return found.needs


def test_an_open_claim_says_what_would_decide_it() -> None:
    shaky = np.array([0.5, 0.6, 0.4, 0.7])
    cells = {key: replace(cell, measures=shaky, majority=0.1) for key, cell in made_up(4).items()}
    wide = Claim(claim="", series="good", check="at-least", bound=0.5)
    assert needs_of(wide, cells).startswith("29 seeds")  # t · 0.129/√n is below 0.05 from n = 29
    assert needs_of(wide, {key: replace(cell, measures=shaky[:2]) for key, cell in cells.items()}).startswith("3 seeds")
    assert "the claimed value" in needs_of(AHEAD, cells)
    chance = {key: replace(cell, majority=0.9) for key, cell in cells.items()}
    assert "majority class" in needs_of(AHEAD, chance)
    (found,) = compute_findings(spec(AHEAD), made_up())
    assert found.needs == ""


@pytest.mark.parametrize("seeds", [3, 10, 28, 60])
def test_the_number_of_seeds_to_decide_is_the_smallest(seeds: int) -> None:
    """If the deviation stays the same, the interval reaches the bound with one seed fewer."""
    numbers = np.tile([0.0, 1.0], 20)
    deviation = numbers.std(ddof=1)
    quantile = {3: 4.303, 10: 2.262, 28: 2.052, 60: 1.960}[seeds]
    bound = numbers.mean() - quantile * deviation / math.sqrt(seeds) * 1.0001
    assert seeds_to_decide(numbers, bound) == seeds


def test_the_interval_of_a_lead_stays_within_the_range_of_differences() -> None:
    shaky = {key: replace(cell, measures=np.array([0.3, 0.9, 1.0])) for key, cell in made_up(3).items()}
    poor = {key: replace(cell, measures=np.array([0.0, 0.3, 0.0])) for key, cell in made_up(3).items()}
    cells = {key: (shaky if key[1] == "good" else poor)[key] for key in shaky}
    (found,) = compute_findings(spec(AHEAD), cells)
    assert found.evidence.endswith("to +1.000) against Bad")


@pytest.mark.parametrize(
    "value, sign, shown",
    [(0.8124, "", "0.812"), (-0.02, "+", "-0.020"), (6.72e17, "", "6.7e+17"), (-36945.0, "+", "-3.7e+04")],
)
def test_a_divergent_loss_is_shown_with_a_power_of_ten(value: float, sign: str, shown: str) -> None:
    assert format_measure(value, sign) == shown


def test_the_logarithm_of_a_loss_decides_where_losses_differ_by_orders_of_magnitude() -> None:
    losses = (4.5e24, 9.4e20, 3.1e22)
    runs = {RunPosition("made", "good", None, None, seed): outcome(loss) for seed, loss in enumerate(losses)}
    claim = Claim(claim="", series="good", check="at-least", bound=0.362)
    verdicts = [
        compute_findings(spec(claim, measure=f"{name}accuracy_mean"), build_cells(runs, f"{name}accuracy_mean"))
        for name in ("", "log10_")
    ]
    assert build_cells(runs, "log10_accuracy_mean")["made", "good", None, None].mean == pytest.approx(22.7, abs=0.1)
    assert [found.verdict for (found,) in verdicts] == ["open", "holds"]
