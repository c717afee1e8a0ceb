"""Decided claims that are run again with new seeds."""

from collections import Counter
from pathlib import Path

import pytest
from sottovoce_lab.papers import again, papers
from sottovoce_lab.papers.again import FIRST_SEED, MAX_SECONDS, DecidedClaim
from sottovoce_lab.papers.pages import index_page
from sottovoce_lab.papers.runs import RunPosition
from sottovoce_lab.papers.specification import Claim
from sottovoce_lab.papers.verdicts import compute_findings

from tests.unit.papers.made_up import made_up, outcome, spec
from tests.unit.papers.stored import RESULTS, claims_of

AHEAD = Claim(claim="good beats bad", series="good", check="ahead", than=["bad"])


@pytest.fixture(scope="module")
def decided() -> list[DecidedClaim]:
    return list(again.list_decided(RESULTS))


def lead(by: float) -> dict[RunPosition, dict[str, object]]:
    return {
        RunPosition("made", series, x, None, seed): outcome(level + seed / 100)
        for series, level in (("good", 0.7), ("bad", 0.7 - by))
        for x in (1.0, 4.0)
        for seed in range(5)
    }


def test_each_decided_claim_of_the_pages_is_found_with_the_same_verdict_on_its_own_cells(
    decided: list[DecidedClaim],
) -> None:
    found = {
        (claim.name.replace("-", " "), claim.finding.panel, claim.finding.claim, claim.finding.verdict)
        for claim in decided
    }
    rows = {
        (f"{paper.replace('-', ' ')}/{row['figure']}", row["panel"], row["claim"], row["verdict"])
        for paper in papers()
        for row in claims_of(paper)
        if row["verdict"] != "open"
    }
    assert found == rows


def test_a_draw_repeats_and_leaves_out_claims_that_cost_more(decided: list[DecidedClaim]) -> None:
    drawn, repeated = (again.draw_claims(decided, 20, seed=65) for _ in range(2))
    assert [(c.name, c.finding) for c in drawn] == [(c.name, c.finding) for c in repeated]
    assert len(drawn) == 20
    assert any(claim.seconds > MAX_SECONDS for claim in decided)
    assert max(claim.seconds for claim in drawn) <= MAX_SECONDS


def test_a_claim_is_run_again_with_as_many_seeds_as_are_stored_none_of_which_is_used(
    decided: list[DecidedClaim],
) -> None:
    claim = next(claim for claim in decided if claim.name == "hegedus-2017/figure-3")
    runs = again.list_new_runs(claim, Path("no data needed"))
    counts = Counter((position.panel, position.series, position.x, position.y) for position in runs)
    assert counts == {key: len(cell.measures) for key, cell in claim.cells.items()}
    assert min(keys["seed"] for keys in runs.values()) == FIRST_SEED
    assert max(len(cell.measures) for stored in decided for cell in stored.cells.values()) < FIRST_SEED


@pytest.mark.parametrize("by, verdict", [(0.2, "holds"), (-0.2, "fails")])
def test_the_stored_verdict_stands_beside_the_verdict_on_new_seeds(by: float, verdict: str) -> None:
    described, cells = spec(AHEAD), made_up()
    (finding,) = compute_findings(described, cells)
    row = again.compare(DecidedClaim("made/table-1", described, cells, finding, 1.0), lead(by))
    assert (row.figure, row.panel, row.claim) == ("made/table-1", "Made up", "good beats bad")
    assert (row.verdict, row.again, row.seeds) == ("holds", verdict, 5)


def test_the_index_counts_verdicts_that_stay_that_become_open_and_that_are_reversed() -> None:
    rows = [
        again.Repetition("a/b", "p", f"{number}", "holds", verdict, 5, "")
        for number, verdict in enumerate(["holds", "holds", "open", "fails"])
    ]
    text = index_page({}, rows)
    assert "4 decided claims" in text
    assert "([table](again.csv)), 2 verdicts stay, 1 become open, and 1 are reversed." in text
    assert "again.csv" not in index_page({})


def test_the_table_is_read_as_written(tmp_path: Path) -> None:
    rows = [again.Repetition("a/b", "p, q", "c", "holds", "open", 5, "+0.1 (0 to +0.2)")]
    again.write_rows(rows, tmp_path / again.FILE)
    assert again.read_rows(tmp_path / again.FILE) == rows
    assert again.read_rows(tmp_path / "none.csv") == []
