"""Data SPECs, which have the form `KIND`, `KIND:PATH` or `KIND:PATH#option=value&option=value`.

digits   breast-cancer   meters:FILE   synthetic   idx:DIR   csv:FILE#label=COLUMN   npz:FILE   covertype:FILE   arrays
feed:mqtt://HOST:PORT#store=FILE
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sottovoce.data.bounds import check_bounds
from sottovoce.data.dataset import DataSet, Declaration, Table
from sottovoce.errors import DataError
from sottovoce.plugins import DATA_KIND, find, load as load_plugin, plugin_errors
from sottovoce.suggestions import suggest_name

if TYPE_CHECKING:  # most devices have no data kind of another package
    from sottovoce.data.stability import Writer


@dataclass(frozen=True, slots=True)
class DataSpec:
    """A parsed data SPEC.

    Attributes:
        kind: one of the known kinds.
        path: file or directory, or a feed's store; None for a kind without a path.
        options: options after `#`.
    """

    kind: str
    path: Path | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DataKind:
    """A kind of data SPEC. Other packages can provide kinds as entry points in the group `sottovoce.datasets`.

    Attributes:
        example: example of a SPEC.
        loader: function that returns the rows as a Table. Its arguments are the path, if the kind has one, and the
            options, if the kind has any, as a mapping of strings. For a built-in kind: module and function in this
            folder, imported when such data is loaded.
        has_path: whether a SPEC of this kind has a path.
        options: options that the kind accepts.
        required: options that must be set; `A|B` stands for either of two.
        file: option that contains the file's path, if the text after the kind is an address rather than a path.
        write: function that writes a file of this kind with made-up rows, given the path and one number per row; see
            sottovoce.data.stability. Without it, no run on such data is proved.
    """

    example: str
    loader: str | Callable[..., Table]
    has_path: bool = True
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    file: str | None = None
    write: "Writer | None" = None


KINDS: dict[str, DataKind] = {
    "digits": DataKind("digits", "demo.digits", has_path=False),
    "breast-cancer": DataKind("breast-cancer", "demo.breast_cancer", has_path=False),
    "idx": DataKind("idx:/data/mnist", "idx.load_idx", options=("classes",)),
    "csv": DataKind(
        "csv:/data/meters.csv#label=tariff",
        "csv_file.load_csv",
        options=("label", "target", "labels", "classes", "group", "header", "delimiter", "bounds", "test"),
        required=("label|target",),
    ),
    "synthetic": DataKind(
        "synthetic#features=20&classes=2&records=2000&seed=0",
        "synthetic.from_options",
        has_path=False,
        options=("features", "classes", "records", "seed"),
    ),
    "feed": DataKind(
        "feed:mqtt://homeassistant.local:1883#store=/var/lib/sottovoce/windows.db",
        "feed.records.load_feed",
        options=("store", "task", "meter", "test"),
        required=("store",),
        file="store",
    ),
    "covertype": DataKind("covertype:/data/covtype_sample.npz", "covertype.load_covertype"),
    "meters": DataKind("meters:/data/meters.npz", "meters.load_meters", options=("task", "test", "first")),
    "arrays": DataKind("arrays", "dataset.arrays_missing", has_path=False),
    "npz": DataKind("npz:/data/records.npz#bounds=0:255", "npz.load_npz", options=("bounds",)),
}
"""All built-in kinds of data, keyed by name."""

_SUFFIXES = {".csv": "csv:{}#label=COLUMN", ".npz": "npz:{}"}
"""SPEC templates for a file without a kind, keyed by file suffix."""
_IDX_DATASETS = ("mnist", "fashion-mnist", "kmnist", "emnist")
"""Data sets that are distributed as IDX files."""


def parse(spec: str) -> DataSpec:
    """Parse a data SPEC without accessing any file.

    Args:
        spec: SPEC, for example `csv:/data/meters.csv#label=tariff&bounds=0:5000`. The path ends at the first `#`.

    Returns:
        The parsed SPEC.

    Raises:
        DataError: for an unknown kind or option, or a part that is missing, repeated or not allowed.
    """
    head, hash_sign, tail = spec.partition("#")
    name, colon, location = head.partition(":")
    kind = _find_kind(name)
    if kind is None:
        raise DataError(f"There is no data kind {name!r}. {_remedy(name)} Known kinds: {', '.join(KINDS)}.")
    if kind.has_path != bool(location) or (colon and not location):
        problem = "requires a path" if kind.has_path else "does not accept a path"
        raise DataError(f"Data kind {name!r} {problem}. For example, write {kind.example}")
    options = _options(name, kind, tail) if hash_sign else {}
    for option in kind.required:
        if not options.keys() & {*option.split("|")}:
            either = "' or '".join(option.split("|"))
            raise DataError(f"Data kind {name!r} requires the option '{either}'. For example, write {kind.example}")
    if kind.file is not None:
        location = options.pop(kind.file)
    return DataSpec(name, Path(location).expanduser() if kind.has_path else None, options)


def load(spec: DataSpec | str, declared: Declaration | None = None) -> DataSet:
    """Load the data set that a SPEC describes: the loader reads rows, and each becomes a record by itself.

    Args:
        spec: SPEC, either parsed or as text.
        declared: the device's public declaration; None on a workstation, see `Table.dataset`.

    Returns:
        The data set.

    Raises:
        DataError: if the SPEC is malformed, or its source is missing or corrupt, or does not contain valid records.
    """
    parsed = parse(spec) if isinstance(spec, str) else spec
    kind = _find_kind(parsed.kind)
    if kind is None:
        raise DataError(f"There is no data kind {parsed.kind!r}.")
    dataset = _read(parsed.kind, kind, parsed.path, parsed.options).dataset(declared)
    reasons = [reason for reason in (dataset.unproved, unproved_reason(parsed)) if reason]
    return replace(dataset, unproved="; ".join(reasons))


def unproved_reason(spec: DataSpec) -> str:
    """Return why no run on such data is proved; empty if nothing speaks against it.

    Raises:
        DataError: if there is no such kind.
        PluginError: if the package that provides the kind fails.
    """
    return _unproved_reason(spec.kind, tuple(spec.options.items()))


@lru_cache
def _unproved_reason(name: str, options: tuple[tuple[str, str], ...]) -> str:
    kind = _find_kind(name)
    if kind is None:
        raise DataError(f"There is no data kind {name!r}.")
    if isinstance(kind.loader, str):
        return ""
    if kind.write is None or not kind.has_path:
        return f"the data kind {name} cannot show that each row becomes a record by itself (DataKind.write)"
    from sottovoce.data.stability import find_instability

    problem = find_instability(lambda path: _read(name, kind, path, dict(options)), kind.write)
    return (
        f"the data kind {name} breaks the rule that each row becomes a record by itself: {problem}" if problem else ""
    )


def _read(name: str, kind: DataKind, path: Path | None, options: Mapping[str, str]) -> Table:
    """Return the rows that a kind's loader reads."""
    arguments: list[Any] = [path] if kind.has_path else []
    arguments += [options] if kind.options else []
    if isinstance(kind.loader, str):
        module, _, function = kind.loader.rpartition(".")
        return cast(Table, getattr(import_module(f"sottovoce.data.{module}"), function)(*arguments))
    return _read_from_plugin(name, kind, arguments)


def _find_kind(name: str) -> DataKind | None:
    if name in KINDS:  # built-in kinds take precedence; a package that reuses a name breaks only `plugins --check`
        return KINDS[name]
    plugin = find(DATA_KIND, name, KINDS)
    if plugin is None:
        return None
    kind = cast(DataKind, load_plugin(plugin, DataKind))
    if not callable(kind.loader):
        raise plugin.error(f"the kind's loader is of type {type(kind.loader).__name__}, not a function")
    if not {name for option in kind.required for name in option.split("|")} <= {*kind.options}:
        raise plugin.error("the kind requires an option that it does not declare")
    return kind


def _read_from_plugin(name: str, kind: DataKind, arguments: list[Any]) -> Table:
    """Return the rows that another package's loader reads, after a check of everything but the rows."""
    plugin = find(DATA_KIND, name, KINDS)
    if plugin is None or isinstance(kind.loader, str):
        raise DataError(f"There is no data kind {name!r}.")
    with plugin_errors(plugin):
        table: object = kind.loader(*arguments)
    if not isinstance(table, Table):
        raise plugin.error(f"the kind's loader returned an object of type {type(table).__name__}, not a Table")
    with plugin_errors(plugin):
        width = table.rows[0].shape[1]
        if table.bounds is not None and not isinstance(table.bounds, str):
            check_bounds(*table.bounds, width, table.origin)
    return table


def _remedy(name: str) -> str:
    """Return the remedy for an unknown kind of data."""
    suffix = Path(name).suffix.lower()
    if suffix in _SUFFIXES:
        return f"For example, write {_SUFFIXES[suffix].format(name)} to read this file."
    if name.lower() in _IDX_DATASETS:
        return f"For example, write idx:DIRECTORY for the directory that contains the files of {name}."
    similar = suggest_name(name, KINDS)
    return f"{f'Did you mean {similar!r}? ' if similar else ''}For example, write {KINDS[similar or 'csv'].example}."


def _options(name: str, kind: DataKind, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in text.split("&"):
        option, _, value = item.partition("=")
        if option not in kind.options:
            hint = f"Its options are {', '.join(kind.options)}." if kind.options else "It has no options."
            raise DataError(f"Data kind {name!r} has no option {option!r}. {hint} For example, write {kind.example}")
        if option in options or not value:
            problem = "is set twice" if option in options else "has no value"
            raise DataError(f"Option {option!r} of data kind {name!r} {problem}. For example, write {kind.example}")
        options[option] = value
    return options
