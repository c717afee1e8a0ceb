"""Tables of the secure-sum messages in docs/reference/wire.md; `python -m tests.support.wire_schema` rewrites them."""

import re
from itertools import groupby
from operator import itemgetter
from typing import Any, get_args

from msgspec import inspect
from sottovoce.algorithms.cell.public import messages, proofs
from sottovoce.privacy.secure_sum import opening, statements, steps

from tests.support.sources import ROOT, markdown_table

_DIGEST = "32 bytes"
PAGE = ROOT / "docs/reference/wire.md"
SENDERS = ((messages.ToLeader, "member"), (messages.FromLeader, "leader"))
STRUCTURES = (opening.Opening, steps.Revealed, steps.RevealedShare, *get_args(proofs.Proof))


def tables() -> dict[str, str]:
    """Return each table of the page by its name."""
    sender = {kind: who for kinds, who in SENDERS for kind in get_args(kinds)}
    return {
        "messages": markdown_table(
            ("tag", "sender", "content"),
            ((_tag(kind), sender.get(kind, "any"), _fields(kind)) for kind in get_args(messages.AnyContent)),
        ),
        "statements": markdown_table(
            ("tag", "meaning", "content"),
            ((_tag(kind), _summary(kind), _fields(kind)) for kind in get_args(statements.Body)),
        ),
        "structures": markdown_table(
            ("name", "tag", "content"),
            (
                (f"`{kind.__name__}`", "none" if kind.__struct_config__.tag is None else _tag(kind), _fields(kind))
                for kind in STRUCTURES
            ),
        ),
    }


def filled(page: str) -> str:
    """Return the page with its tables as the code defines them."""
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        assert found, f"the page has no table {name}"
        page = before + begin + table + end + rest.partition(end)[2]
    return page


def _tag(kind: Any) -> str:
    return f"`{kind.__struct_config__.tag}`"


def _summary(kind: Any) -> str:
    return re.sub(r"\s+", " ", kind.__doc__.split("\n\n")[0]).rstrip(".")


def _fields(kind: Any) -> str:
    found: Any = inspect.type_info(kind)
    described = [(f"`{field.encode_name}`", field.encode_name, _describe(field.type)) for field in found.fields]
    shown = [(name, "" if kind in (key, _DIGEST) else f": {kind}") for name, key, kind in described]
    same = [(", ".join(name for name, _ in group), kind) for kind, group in groupby(shown, key=itemgetter(1))]
    return "; ".join(names + kind for names, kind in same)


def _describe(kind: Any) -> str:
    match kind:
        case inspect.BytesType(low, high):
            return f"{_size(low, high)} bytes".lstrip()
        case inspect.StrType(low, high):
            return f"text, {_size(low, high)}"
        case inspect.IntType():
            low, high = kind.ge, kind.le if kind.lt is None else kind.lt - 1
            return f"{low}–{'2⁵³' if high == 2**53 else high}"
        case inspect.BoolType():
            return "boolean"
        case inspect.VarTupleType(item, low, high):
            return f"{_size(low, high)} × {_describe(item)}"
        case inspect.DataclassType():
            return kind.cls.__name__.lower()
        case inspect.StructType():
            return f"`{kind.cls.__name__}`"
        case inspect.UnionType(kinds):
            return " or ".join(_describe(each) for each in kinds)
    raise TypeError(f"no description of {kind}")


def _size(low: int | None, high: int | None) -> str:
    if high is None:
        return ""
    return f"{high}" if low == high else f"≤ {high}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
