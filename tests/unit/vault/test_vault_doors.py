"""Values derived from records: they leave through two functions, as the class and the audit guide state."""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import sottovoce
from sottovoce.vault import Vault

HOME = Path(sottovoce.__file__).parent
GUIDE = HOME.parents[1] / "docs" / "audit-guide.md"
ROW = re.compile(r"^\| .+ \| \[[\w/.]+\]\(\.\./agent/sottovoce/([\w/.]+)\) \| `(.+)` \|$", re.MULTILINE)
DOORS = {"answer", "step"}
IN_ITS_THREAD = {"ask": "answer", "take_part": "step"}
"""The same functions, called in the vault's own thread."""
PUBLIC_FACTS = {
    "statement", "follows", "lifetime", "spending", "tip", "mark", "keepers", "appoint", "end", "largest_step", "close",
}  # fmt: skip
"""What does not depend on a record: settings, the ledger's account, and how the vault ends."""


def methods() -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    (tree,) = ast.parse(inspect.getsource(Vault)).body
    assert isinstance(tree, ast.ClassDef)
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def touched(node: ast.AST) -> set[str]:
    """Names of attributes and of own methods that a function uses."""
    return {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def reached(name: str, found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> set[str]:
    """The same of all that it calls in the class."""
    seen, left = set[str](), [name]
    used = set[str]()
    while left:
        one = left.pop()
        if one not in seen and one in found:
            seen.add(one)
            used |= touched(found[one])
            left += used & set(found)
    return used


def test_the_class_has_two_doors_and_no_third() -> None:
    public = {name for name in vars(Vault) if not name.startswith("_")}
    assert public == DOORS | set(IN_ITS_THREAD) | PUBLIC_FACTS, "a third door: is what it returns derived from records?"


def test_only_the_doors_reach_the_records_the_program_or_the_cell() -> None:
    found = methods()
    for name in found:
        if name.startswith("_") or name in DOORS | set(IN_ITS_THREAD):
            continue
        assert not reached(name, found) & {"records", "program", "compute", "apply", "step", "read", "answer"}, name
    for name, door in IN_ITS_THREAD.items():
        assert door in touched(found[name])
        assert not touched(found[name]) & {"records", "program", "compute"}


def test_every_line_that_the_guide_quotes_is_in_its_file_and_in_that_order() -> None:
    rows = ROW.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(rows) >= 20
    last: dict[str, int] = {}
    for file, line in rows:
        source = (HOME / file).read_text(encoding="utf-8")
        assert source.count(line) >= 1, f"{file} does not say {line}"
        place = source.index(line)
        if file in ("vault/vault.py", "vault/cell_context.py"):
            assert place > last.get(file, -1), f"{line}: stands in another order than the guide says"
            last[file] = place


def test_charge_compute_noise_store_return_in_both_doors() -> None:
    for function, steps in (
        (Vault.answer, (".charge(", ".compute(", ".apply(", "ledger.store(", "return self._release")),
        (_masked(), ("ledger.charge(", "self.raw(", "member.mask(", "ledger.store(", "return masked")),
    ):
        source = inspect.getsource(function)
        places = [source.index(step) for step in steps]
        assert places == sorted(places)


def _masked() -> Callable[..., object]:
    from sottovoce.vault.cell_context import CellContext

    return CellContext._mask
