"""Tables in docs/reference/configuration.md; `python -m tests.support.configuration_tables` rewrites them.

With `--check`, the command writes nothing, and fails if the page is not what it would write.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, get_type_hints

from msgspec import NODEFAULT, inspect
from sottovoce.config import CellSection, FormatSection, MeterSection, MqttSection, PeerSection, WholeConfig
from sottovoce.config.feed import HomeAssistantSection, ValueSection
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.suggestions import LARGEST

from tests.support.sources import ROOT, markdown_table

PAGE = ROOT / "docs/reference/configuration.md"
COMMAND = "python -m tests.support.configuration_tables"
SECTIONS: dict[str, Any] = {
    **{name: section for name, section in get_type_hints(WholeConfig).items() if name != "learner"},
    "privacy.cell": CellSection,
    "transport.peers": PeerSection,
    "transport.mqtt": MqttSection,
    "feed.meters": MeterSection,
    "feed.formats": FormatSection,
    "feed.formats.values": ValueSection,
    "feed.home_assistant": HomeAssistantSection,
}
"""Every table of a configuration except `[learner]`, which is a different one for each learner."""

MORE = {
    "agent.log_format": "events.md",
    "agent.readers_socket": "faults.md#strangers",
    "data.source": "data.md",
    "data.public": "../explanation/rounds.md#weighing-gradients",
    "data.transform": "data.md#the-transform",
    "learner.answers": "../explanation/rounds.md",
    "learner.centre": "../explanation/contributions.md#a-shared-mean",
    "learner.contributors": "../explanation/contributions.md",
    "learner.dishonest": "../explanation/contributions.md#the-robust-mean",
    "learner.longest_period": "../explanation/push-sum.md#a-quiet-device",
    "learner.name": "learners.md",
    "learner.perturbation": "../explanation/golf.md#what-a-device-publishes",
    "learner.prior": "../explanation/average.md#what-is-public-already",
    "learner.products": "../explanation/products.md",
    "learner.public": "../explanation/products.md#what-is-public",
    "learner.release_every": "../explanation/shared-model.md",
    "learner.share_bits": "../explanation/push-sum.md#what-a-share-takes",
    "learner.step_size": "../explanation/rounds.md#step-size",
    "learner.steps": "../explanation/contributions.md#number-of-steps",
    "privacy.noise": "../explanation/secure-sums.md",
    "privacy.unit": "../explanation/privacy-model.md#unit-and-neighbours",
    "transport.peers": "../explanation/peer-sampling.md",
    "transport.plugins": "../how-to/plug-ins.md",
    "membership.mdns": "../how-to/find-peers.md#on-a-local-network",
    "membership.dns": "../how-to/find-peers.md#in-dns",
    "identity.mode": "../how-to/enrol.md",
    "vault.tasks": "../how-to/change-task.md",
    "vault.policy": "../how-to/change-task.md#prepare-the-devices",
    "feed.source": "feeds.md#meters-without-a-broker",
    "feed.formats": "feeds.md#formats",
    "feed.home_assistant.enabled": "../how-to/home-assistant.md",
    "feed.home_assistant.forecast": "../how-to/home-assistant.md#the-forecast",
    "feed.home_assistant.street": "../how-to/home-assistant.md#the-street",
    "feed.home_assistant.tasks": "../how-to/home-assistant.md#the-fleets-task",
    "ledger.echoes": "../explanation/ledger.md#restored-copies-and-clones",
    "ledger.bytes_per_day": "../explanation/ledger.md#what-the-ledger-writes",
    "observe.metrics": "metrics.md",
    "observe.results": "../how-to/results.md",
}
"""Pages that explain a key, to which its name links."""

_TABLE = re.compile(r"(<!-- keys of ([a-z_.]+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)
_OWN = re.compile(r"(<!-- keys of each learner -->\n).*?(<!-- end of keys -->)", re.DOTALL)
_HEAD = ("key", "limits", "default", "meaning")
_WORD = re.compile(r"(?<![`\w/:.\[])(?:[a-z_]+(?:\.[a-z_]+)+(?![`\w/.\]])|\{[a-z]+\})")
_POWERS = {10**7: "10⁷", 2**20: "2²⁰", 2**50: "2⁵⁰", 2**53: "2⁵³"}
_FEWEST_SHARED = 5
_FEW = 2


def filled(page: str) -> str:
    """Return the page with its tables as the code defines them."""
    page = _TABLE.sub(lambda found: found[1] + markdown_table(_HEAD, _rows(found[2])) + found[3], page)
    return _OWN.sub(lambda found: found[1] + markdown_table(("learner", "own keys"), own_keys()) + found[2], page)


def _rows(name: str) -> Iterator[tuple[str, ...]]:
    if name == "learner":
        yield from _learner_rows()
        return
    for field in inspect.type_info(SECTIONS[name]).fields:  # type: ignore[attr-defined]
        if f"{name}.{field.encode_name}" not in SECTIONS or _description(field.type):
            yield _row(name, field)


def _learner_rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each key, or one for each of its meanings if it has several."""
    yield _name("learner.name"), "", '`"clipd2p"`', "a learner's name"
    variants: dict[tuple[str, str], dict[str, tuple[str, dict[str, list[str]]]]] = {}
    for learner, known in ALGORITHMS.items():
        for field in inspect.type_info(known.settings).fields:  # type: ignore[attr-defined]
            cell, kind, default, meaning = _row("learner", field)
            same = variants.setdefault((cell, kind), {})
            base = next((each for each in same if each.startswith(meaning) or meaning.startswith(each)), meaning)
            whole, defaults = same.get(base, ("", {}))
            same[base] = max(whole, meaning, key=len), defaults
            defaults.setdefault(default, []).append(learner)
    cells = [cell for (cell, _), meanings in variants.items() for _ in meanings]
    for cell, kind in sorted(variants, key=lambda variant: cells.index(variant[0])):
        for whole, defaults in variants[cell, kind].values():
            learners = [learner for each in defaults.values() for learner in each]
            of = f"{_names(learners)}: " if cells.count(cell) > 1 and len(learners) <= _FEW else ""
            yield cell, kind, _defaults(defaults), of + whole


def _defaults(defaults: dict[str, list[str]]) -> str:
    """Return the usual default, and those of the learners that differ."""
    usual = max(defaults, key=lambda default: len(defaults[default]))
    others = [f"{_names(names)}: {default}" for default, names in defaults.items() if default != usual and default]
    return "; ".join(filter(None, [usual, *others]))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def own_keys() -> Iterator[tuple[str, str]]:
    """Yield each learner's own keys, in terms of those of an earlier one that has most of them."""
    listed: dict[tuple[str, ...], list[str]] = {}
    for name, known in sorted(ALGORITHMS.items(), key=lambda item: len(item[1].keys)):
        listed.setdefault(known.keys, []).append(name)
    earlier: list[tuple[str, ...]] = []
    for keys, names in listed.items():
        shared = max((each for each in earlier if {*each} < {*keys}), key=len, default=())
        if len(shared) < _FEWEST_SHARED:
            shared = ()
        own = [f"`{key}`" for key in keys if key not in shared]
        base = [f"those of `{listed[shared][0]}`"] if shared else []
        yield ", ".join(f"`{name}`" for name in names), ", ".join([*base, *own])
        earlier.append(keys)


def _row(table: str, field: inspect.Field) -> tuple[str, str, str, str]:
    name = f"{table}.{field.encode_name}"
    description = _description(field.type)
    assert description, f"{name} has no description"
    return _name(name), _type(field.type), _default(field), _WORD.sub(_code, description)


def _name(name: str) -> str:
    key = f"`{name.rpartition('.')[2]}`"
    return f"[{key}]({MORE[name]})" if name in MORE else key


def _code(found: re.Match[str]) -> str:
    """Return a key's or a placeholder's name as code."""
    is_key = found[0].partition(".")[0] in {*SECTIONS, "learner"} or found[0].startswith("{")
    return f"`{found[0]}`" if is_key else found[0]


def _description(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", "")) or _description(kind.type)
    return ""


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(inner):
            return _type(inner)
        case inspect.UnionType(kinds):
            return " or ".join(_type(each) for each in kinds if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType():
            return ", ".join(f'`"{value}"`' for value in kind.values)
        case inspect.BoolType():
            return ""
        case inspect.IntType() | inspect.FloatType():
            return _number(kind)
        case inspect.StrType():
            return "" if kind.max_length is None else f"≤ {kind.max_length:,} letters"
        case inspect.VarTupleType():
            return "list" if kind.max_length is None else f"list, ≤ {kind.max_length:,}"
        case inspect.TupleType():
            return "`[low, high]`"
        case inspect.CustomType():
            return "path"
        case inspect.DictType():
            return "table"
    raise TypeError(f"no description of {kind}")


def _number(kind: inspect.IntType | inspect.FloatType) -> str:
    most = None if kind.le == LARGEST else kind.le
    if kind.ge is not None and most is not None:
        return f"{_figure(kind.ge)}–{_figure(most)}"
    limits = ((kind.gt, ">"), (kind.ge, "≥"), (kind.lt, "<"), (most, "≤"))
    return ", ".join(f"{sign} {_figure(value)}" for value, sign in limits if value is not None)


def _figure(value: float) -> str:
    return _POWERS.get(int(value), f"{int(value):,}") if value == int(value) else f"{value}"


def _default(field: inspect.Field) -> str:
    if field.default is NODEFAULT:
        return "required" if field.required else ""
    if field.default is None or field.default in ((), {}):
        return ""
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, tuple):
        return f"`[{', '.join(_toml(value) for value in field.default)}]`"
    return "" if hasattr(field.default, "__struct_fields__") else f"`{_toml(field.default)}`"


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value!r}"


def main() -> int:
    """Rewrite the page, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(filled(page), encoding="utf-8")
    elif filled(page) != page:
        print(f"docs/reference/configuration.md is not what the code says: run `{COMMAND}`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
