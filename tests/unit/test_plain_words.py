"""Plain English in pages, messages and docstrings: forbidden words are absent."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = re.compile(
    r"\b(nobody|whoever|anybody|anew|goes on|go on|going on|so many|is told|are told|whose turn)\b", re.IGNORECASE
)
FENCE, CODE = re.compile(r"^ {0,3}(`{3,}|~{3,})"), re.compile(r"`[^`]*`")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not {"decisions", "results"} & set(path.relative_to(ROOT).parts)
    ),
]
DEPLOYED = [
    path
    for path in sorted((ROOT / "deploy").rglob("*"))
    if path.suffix in {".cfg", ".conf", ".json", ".md", ".service", ".sh", ".toml", ".yaml", ".yml"}
]
PACKAGES = ("agent", "coordinator-free-bootstrap", "home", "lab")
VAGUE = re.compile(r"(The same|What|Who|Where|When|Of|Those|Them|It|As|That)\b")
"""Beginnings of a docstring that do not say what the thing is."""


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield a page's lines with their numbers, without a program's input or output."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, CODE.sub("", line)


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield a module's literals with more than one word, except docstrings."""
    tree = ast.parse(source)
    docstrings = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        for statement in body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, its classes and its functions, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


@pytest.mark.parametrize("file", DEPLOYED, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_deployed_file_is_in_plain_english(file: Path) -> None:
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    assert [f"{file.name}:{number}: {line.strip()}" for number, line in lines if WORDS.search(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_english(page: Path) -> None:
    results = [
        f"{page.name}:{number}: {line.strip()}" for number, line in prose(page.read_text()) if WORDS.search(line)
    ]
    assert results == []


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_are_in_plain_english(package: str) -> None:
    results = [
        f"{path.relative_to(ROOT)}:{number}: {literal}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for number, literal in messages(path.read_text())
        if WORDS.search(literal)
    ]
    assert results == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_are_in_plain_english_and_begin_with_the_subject(package: str) -> None:
    results = [
        f"{path.relative_to(ROOT)}:{number}: {text.splitlines()[0]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for number, text in docstrings(path.read_text())
        if WORDS.search(text) or VAGUE.match(text)
    ]
    assert results == []


def test_the_check_detects_forbidden_words() -> None:
    assert [number for number, line in prose("It goes on.\n```\nnobody\n```\n`anew`\n") if WORDS.search(line)] == [1]
    source = 'def f():\n    """Nobody."""\n    return "whoever asks"\n'
    assert [number for number, literal in messages(source) if WORDS.search(literal)] == [3]
    assert [number for number, text in docstrings(source) if WORDS.search(text)] == [2]
    assert VAGUE.match("What a release costs.")
    assert not VAGUE.match("Whether a release costs anything.")
