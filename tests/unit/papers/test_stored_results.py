"""The stored results of the papers: pages, claims and README agree with specifications and stored numbers."""

import re
import shutil
from pathlib import Path

import pytest
from sottovoce_lab.papers import experiments, papers, write_pages
from sottovoce_lab.papers.specification import read_experiment, read_paper
from sottovoce_lab.papers.verdicts import CONFIRMED, REFUTED

from tests.unit.papers.stored import RESULTS, ROOT, claims_of

MAX_WORDS, MAX_INDEX_WORDS, MAX_INDEX_ROWS = 700, 600, 20


def test_pages_follow_from_the_stored_numbers_and_the_specifications(tmp_path: Path) -> None:
    """If this fails: sottovoce reproduce --pages --out docs/results."""
    copy = tmp_path / "results"
    shutil.copytree(RESULTS, copy, ignore=shutil.ignore_patterns("*.svg"))
    write_pages(copy)
    for file in sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file()):
        assert (copy / file).read_text(encoding="utf-8") == (RESULTS / file).read_text(encoding="utf-8"), file


@pytest.mark.parametrize("paper", papers())
def test_the_claims_on_a_page_are_those_of_its_specifications(paper: str) -> None:
    specified = {
        (name.partition("/")[2], claim.claim) for name in experiments(paper) for claim in read_experiment(name).claims
    }
    specified |= {
        (figure, claim)
        for omission in read_paper(paper).omitted
        for figure in omission.figures
        for claim in omission.claims
    }
    found = {(row["figure"].replace(" ", "-"), row["claim"]) for row in claims_of(paper)}
    assert {claim for claim in found if "printed value" not in claim[1]} == specified


@pytest.mark.parametrize("paper", papers())
def test_every_refuted_claim_of_a_paper_has_a_cause(paper: str) -> None:
    rows = [row for row in claims_of(paper) if row["verdict"] in REFUTED and row["of"] == "paper"]
    assert [row["claim"] for row in rows if row["cause"] in ("", "unknown")] == []


@pytest.mark.parametrize("paper", papers())
def test_a_page_is_short_and_has_one_table(paper: str) -> None:
    page = (RESULTS / f"{paper}.md").read_text(encoding="utf-8")
    assert len(page.split()) <= MAX_WORDS
    assert page.count("\n| --- ") == 1


def test_the_index_is_short() -> None:
    page = (RESULTS / "index.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert len(page.split()) <= MAX_INDEX_WORDS
    assert len(rows) <= MAX_INDEX_ROWS


@pytest.mark.parametrize("paper", [paper for paper in papers() if paper != "sottovoce"])
def test_readme_states_how_many_claims_of_a_paper_are_confirmed(paper: str) -> None:
    verdicts = [row["verdict"] for row in claims_of(paper) if row["of"] == "paper"]
    confirmed = sum(verdict in CONFIRMED for verdict in verdicts)
    (stated,) = re.findall(rf"\[(\d+ of \d+)\]\(docs/results/{paper}\.md\)", (ROOT / "README.md").read_text())
    assert stated == f"{confirmed} of {len(verdicts)}"
