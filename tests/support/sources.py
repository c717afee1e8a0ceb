"""Code and pages of the project: where its packages are, how long a file is, and tables for pages."""

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ROOT / "agent/sottovoce",
    ROOT / "coordinator-free-bootstrap/sottovoce_bootstrap",
    ROOT / "home/sottovoce_home",
    ROOT / "lab/sottovoce_lab",
    ROOT / "operator/sottovoce_operator",
    ROOT / "papers/sottovoce_papers",
)
_NO_CODE = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def sources() -> list[Path]:
    """Return every source file of every package, in order."""
    return [file for package in PACKAGES for file in sorted(package.rglob("*.py"))]


def display_path(file: Path) -> str:
    """Return a file's package and path within it, such as `sottovoce/cli/main.py`."""
    package = next(package for package in PACKAGES if file.is_relative_to(package))
    return file.relative_to(package.parent).as_posix()


def code_lines(file: Path) -> int:
    """Return a file's number of lines without blank lines, comments, docstrings and imports."""
    text = file.read_text(encoding="utf-8")
    omitted = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {n for token in tokens if token.type not in _NO_CODE for n in range(token.start[0], token.end[0] + 1)}
    return len(used - omitted)


def _is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, with a line for its head and for each row."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
