"""Values derived from records: they leave through two functions, as the class and the audit guide state."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import sottovoce
from sottovoce.privacy.vault import Vault

from tests.support.sources import ROOT, code_lines

HOME = Path(sottovoce.__file__).parent
GUIDE = HOME.parents[1] / "docs" / "audit-guide.md"
ROW = re.compile(r"^\| .+ \| \[[\w/.]+\]\(\.\./agent/sottovoce/([\w/.]+)\) \| `(.+)` \|$", re.MULTILINE)
READING = re.compile(r"^\| (`[\w/.]+`(?:, `[\w/.]+`)*) \| .+ \| (\d+) \|$", re.MULTILINE)
PAPERS = ROOT / "papers/sottovoce_papers"
MAX_READING = 6000
DOORS = {"answer", "step"}
IN_ITS_THREAD = {"ask": "answer", "take_part": "step"}
"""The same functions, called in the vault's own thread."""
PUBLIC_FACTS = {
    "statement", "follows", "lifetime", "spending", "tip", "mark", "witnesses", "appoint", "end", "largest_step",
    "close",
}  # fmt: skip
"""What does not depend on a record: settings, the ledger's account, and how the vault ends."""


def methods() -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    (tree,) = ast.parse(inspect.getsource(Vault)).body
    assert isinstance(tree, ast.ClassDef)
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def touched(node: ast.AST) -> set[str]:
    """Return the names of attributes and own methods that a function uses."""
    return {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def reached(name: str, found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> set[str]:
    """Return these names for a function and everything that it calls in the class."""
    observed, remaining = set[str](), [name]
    used = set[str]()
    while remaining:
        one = remaining.pop()
        if one not in observed and one in found:
            observed.add(one)
            used |= touched(found[one])
            remaining += used & set(found)
    return used


def test_the_class_has_exactly_two_doors() -> None:
    public = {name for name in vars(Vault) if not name.startswith("_")}
    assert public == DOORS | set(IN_ITS_THREAD) | PUBLIC_FACTS, (
        "a third door: does it return values derived from records?"
    )


def test_only_the_doors_reach_the_records_the_program_or_the_cell() -> None:
    result = methods()
    for name in result:
        if name.startswith("_") or name in DOORS | set(IN_ITS_THREAD):
            continue
        assert not reached(name, result) & {"records", "program", "compute", "apply", "step", "read", "answer"}, name
    for name, door in IN_ITS_THREAD.items():
        assert door in touched(result[name])
        assert not touched(result[name]) & {"records", "program", "compute"}


def test_every_quoted_line_in_the_guide_is_in_its_file_in_order() -> None:
    rows = ROW.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(rows) >= 20
    last: dict[str, int] = {}
    for file, line in rows:
        source = (HOME / file).read_text(encoding="utf-8")
        assert source.count(line) >= 1, f"{file} does not say {line}"
        index = source.index(line)
        if file in ("privacy/vault/vault.py", "privacy/vault/cell_context.py"):
            assert index > last.get(file, -1), f"{line}: stands in another order than the guide says"
            last[file] = index


def test_the_guide_lists_all_code_that_an_auditor_reads() -> None:
    counts: dict[Path, int] = {}
    for names, figure in READING.findall(GUIDE.read_text(encoding="utf-8")):
        places = [(HOME if name.startswith("privacy/") else PAPERS) / name for name in re.findall(r"`(.+?)`", names)]
        files = [file for place in places for file in ([place] if place.suffix else place.rglob("*.py"))]
        row = {file: code_lines(file) for file in files}
        assert abs(sum(row.values()) - int(figure)) <= 50, names
        counts |= row
    private = [file for folder in PAPERS.glob("**/private") for file in folder.rglob("*.py")]
    missing = {*(HOME / "privacy").rglob("*.py"), *private} - counts.keys()
    assert all(code_lines(file) == 0 for file in missing), missing
    learners = Counter[Path]()
    for file, count in counts.items():
        if file.is_relative_to(PAPERS) or file.parent.name == "perturbation":
            learners[file.parent] += count
    assert sum(counts.values()) - learners.total() + max(learners.values()) <= MAX_READING


def test_both_doors_charge_compute_add_noise_store_and_return() -> None:
    for function, steps in (
        (Vault._answer, (".charge(", ".compute(", ".apply(", "ledger.store(", "return self._release")),
        (_masked(), ("ledger.charge(", "self.raw(", "member.mask(", "ledger.store(", "return masked")),
    ):
        source = inspect.getsource(function)
        positions = [source.index(step) for step in steps]
        assert positions == sorted(positions)


def _masked() -> Callable[..., object]:
    from sottovoce.privacy.vault.cell_context import CellContext

    return CellContext._mask
