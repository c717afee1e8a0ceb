"""A short street: the page of a rehearsal shows the result beside the truth."""

import sys
from pathlib import Path

import pytest

from tests.street import __main__ as street


@pytest.mark.soak
def test_a_street_of_five_ends_with_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "street.html"
    monkeypatch.setattr(sys, "argv", ["street", "--homes", "5", "--out", str(page)])
    assert street.main() == 0
    printed = capsys.readouterr().out
    assert "5 of 5 agents hold this result" in printed
    text = page.read_text(encoding="utf-8")
    assert all(f'<polyline class="{name}"' in text for name in ("value", "prior", "truth"))
    assert "the truth, which only this rehearsal knows" in text
