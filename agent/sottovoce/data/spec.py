"""The data SPEC: `KIND`, `KIND:PATH` or `KIND:PATH#option=value&option=value`.

digits   breast-cancer   meters:FILE   synthetic   idx:DIR   csv:FILE#label=COLUMN   npz:FILE   covertype:FILE
feed:mqtt://HOST:PORT#store=FILE
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from sottovoce.data.dataset import DataSet
from sottovoce.errors import DataError
from sottovoce.suggestions import suggestion


@dataclass(frozen=True, slots=True)
class DataSpec:
    """A parsed data SPEC.

    Attributes:
        kind: one of the known kinds.
        path: the file or directory, of a feed its store; None for a kind that has none.
        options: what follows `#`.
    """

    kind: str
    path: Path | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of source.

    Attributes:
        example: of a SPEC.
        loader: file and function in this folder, imported when such data is loaded; the function takes the path if
            there is one, and the options if there are any.
        has_path: whether a path is given.
        options: that it takes.
        required: of these, those that it needs.
        file: the option that names the file, where what follows the kind is the address of something else.
    """

    example: str
    loader: str
    has_path: bool = True
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    file: str | None = None


KINDS: dict[str, _Kind] = {
    "digits": _Kind("digits", "demo.digits", has_path=False),
    "breast-cancer": _Kind("breast-cancer", "demo.breast_cancer", has_path=False),
    "idx": _Kind("idx:/data/mnist", "idx.load_idx"),
    "csv": _Kind(
        "csv:/data/meters.csv#label=tariff",
        "csv_file.load_csv",
        options=("label", "group", "header", "delimiter", "bounds", "test"),
        required=("label",),
    ),
    "synthetic": _Kind(
        "synthetic#features=20&classes=2&records=2000&seed=0",
        "synthetic.from_options",
        has_path=False,
        options=("features", "classes", "records", "seed"),
    ),
    "feed": _Kind(
        "feed:mqtt://homeassistant.local:1883#store=/var/lib/sottovoce/windows.db",
        "feed.records.load_feed",
        options=("store", "task", "meter", "test"),
        required=("store",),
        file="store",
    ),
    "covertype": _Kind("covertype:/data/covtype_sample.npz", "covertype.load_covertype"),
    "meters": _Kind("meters:/data/meters.npz", "meters.load_meters", options=("task", "test")),
    "npz": _Kind("npz:/data/records.npz#bounds=0:255", "npz.load_npz", options=("bounds",)),
}
"""All kinds of data, by name."""

_SUFFIXES = {".csv": "csv:{}#label=COLUMN", ".npz": "npz:{}"}
"""How to read a file that was given without a kind, by its suffix."""
_IN_IDX = ("mnist", "fashion-mnist", "kmnist", "emnist")
"""Data sets that are distributed as IDX files."""


def parse(spec: str) -> DataSpec:
    """Parse a data SPEC without touching any file.

    Args:
        spec: for example `csv:/data/meters.csv#label=tariff&bounds=0:5000`. The path ends at the first `#`.

    Returns:
        its parts.

    Raises:
        DataError: an unknown kind or option, or a part that is missing, doubled or out of place.
    """
    head, hash_sign, tail = spec.partition("#")
    name, colon, location = head.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        raise DataError(f"There is no data kind {name!r}. {_remedy(name)} Known kinds: {', '.join(KINDS)}.")
    if kind.has_path != bool(location) or (colon and not location):
        problem = "needs a path" if kind.has_path else "takes no path"
        raise DataError(f"Data kind {name!r} {problem}. Write for example {kind.example}")
    options = _options(name, kind, tail) if hash_sign else {}
    for option in kind.required:
        if option not in options:
            raise DataError(f"Data kind {name!r} needs the option {option!r}. Write for example {kind.example}")
    if kind.file is not None:
        location = options.pop(kind.file)
    return DataSpec(name, Path(location).expanduser() if kind.has_path else None, options)


def load(spec: DataSpec | str) -> DataSet:
    """Load the data set a SPEC names.

    Args:
        spec: a SPEC, parsed or not.

    Returns:
        the data set.

    Raises:
        DataError: the SPEC is malformed, or its source is missing, damaged or does not hold valid records.
    """
    parsed = parse(spec) if isinstance(spec, str) else spec
    kind = KINDS[parsed.kind]
    module, _, function = kind.loader.rpartition(".")
    loader = getattr(import_module(f"sottovoce.data.{module}"), function)
    given = [parsed.path] if kind.has_path else []
    return cast(DataSet, loader(*given, parsed.options) if kind.options else loader(*given))


def _remedy(name: str) -> str:
    """The remedy for an unknown kind."""
    if (suffix := Path(name).suffix.lower()) in _SUFFIXES:
        return f"Write for example {_SUFFIXES[suffix].format(name)} to read this file."
    if name.lower() in _IN_IDX:
        return f"Write for example idx:DIRECTORY for the directory that holds the files of {name}."
    near = suggestion(name, KINDS)
    return f"{f'Did you mean {near!r}? ' if near else ''}Write for example {KINDS[near or 'csv'].example}."


def _options(name: str, kind: _Kind, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in text.split("&"):
        option, _, value = item.partition("=")
        if option not in kind.options:
            hint = f"It takes {', '.join(kind.options)}." if kind.options else "It takes none."
            raise DataError(f"Data kind {name!r} has no option {option!r}. {hint} Write for example {kind.example}")
        if option in options or not value:
            problem = "is given twice" if option in options else "has no value"
            raise DataError(f"Option {option!r} of data kind {name!r} {problem}. Write for example {kind.example}")
        options[option] = value
    return options
