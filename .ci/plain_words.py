"""Check that pages, deployed files, messages and docstrings are in plain English: forbidden words are absent.

Usage: plain_words.py [ROOT]   another tree than this one
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FORBIDDEN = re.compile(
    r"\b(nobody|whoever|anybody|anew|goes on|go on|going on|so many|is told|are told|whose turn)\b", re.IGNORECASE
)
VAGUE = re.compile(r"(The same|What|Who|Where|When|Of|Those|Them|It|As|That)\b")
"""Beginnings of a docstring that do not say what the thing is."""

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
EXEMPT = {"decisions", "results"}
"""Folders of pages that record what was once said or measured."""

DEPLOYED = {".cfg", ".conf", ".json", ".md", ".service", ".sh", ".toml", ".yaml", ".yml"}
PACKAGES = ("agent", "coordinator-free-bootstrap", "home", "lab", "papers")
_FENCE, _CODE = re.compile(r"^ {0,3}(`{3,}|~{3,})"), re.compile(r"`[^`]*`")

Lines = Iterator[tuple[int, str]]


def main(root: Path) -> int:
    """Report forbidden words and vague docstrings; return 0 if there are none."""
    wrong = [*_in_pages(root), *_in_deployed_files(root), *_in_packages(root)]
    print("\n".join(wrong) or "pages, deployed files, messages and docstrings are in plain English")
    return bool(wrong)


def _in_pages(root: Path) -> Iterator[str]:
    named = [root / name for name in PAGES if (root / name).exists()]
    for page in (*named, *sorted((root / "docs").rglob("*.md"))):
        if not EXEMPT & set(page.relative_to(root).parts):
            yield from _faults(page, _prose(page.read_text(encoding="utf-8")))


def _in_deployed_files(root: Path) -> Iterator[str]:
    for file in sorted((root / "deploy").rglob("*")):
        if file.suffix in DEPLOYED:
            yield from _faults(file, enumerate(file.read_text(encoding="utf-8").splitlines(), start=1))


def _in_packages(root: Path) -> Iterator[str]:
    for module in (path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        docstrings = list(_docstrings(tree))
        yield from _faults(module, _messages(tree))
        yield from _faults(module, iter(docstrings))
        yield from (f"{module}:{number}: begins vaguely: {text}" for number, text in docstrings if VAGUE.match(text))


def _faults(file: Path, texts: Lines) -> Iterator[str]:
    for number, text in texts:
        if found := FORBIDDEN.search(text):
            yield f"{file}:{number}: {found[0]!r} is not plain: {text.strip()}"


def _prose(page: str) -> Lines:
    """Yield a page's lines with their numbers, without a program's input or output."""
    fenced = False
    for number, line in enumerate(page.splitlines(), start=1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, _CODE.sub("", line)


def _docstrings(tree: ast.Module) -> Lines:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def _messages(tree: ast.Module) -> Lines:
    """Yield a module's literals with more than one word, except strings that are statements, such as docstrings."""
    statements = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in statements:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]) if sys.argv[1:] else Path(__file__).parents[1]))
