"""The check of plain English finds forbidden words in each kind of text, and none in code."""

import runpy
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[3] / ".ci" / "plain_words.py"


@pytest.mark.parametrize(
    "file, text, found",
    [
        ("README.md", "It goes on.\n```\nnobody\n```\n`anew`\n", ["README.md:1: 'goes on'"]),
        ("docs/how-to/x.md", "So many devices.\n", ["x.md:1: 'So many'"]),
        ("docs/decisions/x.md", "So many devices.\n", []),
        ("deploy/x/a.conf", "fine\n# started anew\n", ["a.conf:2: 'anew'"]),
        ("deploy/x/a.bin", "anew\n", []),
        ("agent/a.py", 'def f():\n    """Nobody."""\n    return "whoever asks"\n', ["3: 'whoever'", "2: 'Nobody'"]),
        ("lab/a.py", '"""What a release costs."""\n', ["a.py:1: begins vaguely"]),
        ("lab/a.py", '"""Whether a release costs anything."""\nnobody = "nobody"\n', []),
    ],
)
def test_each_fault_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, text: str, found: list[str]
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert runpy.run_path(str(CHECK))["main"](tmp_path) == bool(found)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == max(1, len(found))
    assert all(words in line for words, line in zip(found, lines, strict=False))
