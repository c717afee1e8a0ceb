"""The data SPEC: `KIND`, `KIND:PATH` or `KIND:PATH#option=value&option=value`.

digits   breast-cancer   meters:FILE   synthetic   idx:DIR   csv:FILE#label=COLUMN   npz:FILE   covertype:FILE
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sottovoce.data.covertype import load_covertype
from sottovoce.data.csv_file import load_csv
from sottovoce.data.dataset import DataSet
from sottovoce.data.demo import breast_cancer, digits
from sottovoce.data.idx import load_idx
from sottovoce.data.meters import load_meters
from sottovoce.data.npz import load_npz
from sottovoce.data.synthetic import synthetic
from sottovoce.errors import DataError


@dataclass(frozen=True, slots=True)
class DataSpec:
    """A parsed data SPEC.

    Attributes:
        kind: one of the known kinds.
        path: the file or directory; None for a kind that has none.
        options: what follows `#`.
    """

    kind: str
    path: Path | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Kind:
    example: str
    load: Callable[[Path, Mapping[str, str]], DataSet]
    has_path: bool = True
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


_KINDS: dict[str, _Kind] = {
    "digits": _Kind("digits", lambda path, options: digits(), has_path=False),
    "breast-cancer": _Kind("breast-cancer", lambda path, options: breast_cancer(), has_path=False),
    "idx": _Kind("idx:/data/mnist", lambda path, options: load_idx(path)),
    "csv": _Kind(
        "csv:/data/meters.csv#label=tariff",
        load_csv,
        options=("label", "group", "header", "delimiter", "bounds", "test"),
        required=("label",),
    ),
    "synthetic": _Kind(
        "synthetic#features=20&classes=2&records=2000&seed=0",
        lambda path, options: _synthetic(options),
        has_path=False,
        options=("features", "classes", "records", "seed"),
    ),
    "covertype": _Kind("covertype:/data/covtype_sample.npz", lambda path, options: load_covertype(path)),
    "meters": _Kind("meters:/data/meters.npz", lambda path, options: load_meters(path)),
    "npz": _Kind("npz:/data/records.npz#bounds=0:255", load_npz, options=("bounds",)),
}


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
    kind = _KINDS.get(name)
    if kind is None:
        nearest = difflib.get_close_matches(name, _KINDS, n=1, cutoff=0.0)[0]
        raise DataError(
            f"There is no data kind {name!r}; the nearest is {nearest!r}. Known kinds: {', '.join(_KINDS)}. "
            f"Write for example {_KINDS[nearest].example}"
        )
    if kind.has_path != bool(location) or (colon and not location):
        problem = "needs a path" if kind.has_path else "takes no path"
        raise DataError(f"Data kind {name!r} {problem}. Write for example {kind.example}")
    options = _options(name, kind, tail) if hash_sign else {}
    for option in kind.required:
        if option not in options:
            raise DataError(f"Data kind {name!r} needs the option {option!r}. Write for example {kind.example}")
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
    return _KINDS[parsed.kind].load(parsed.path or Path(), parsed.options)


def _synthetic(options: Mapping[str, str]) -> DataSet:
    numbers = {"features": 20, "classes": 2, "records": 2000, "seed": 0}
    for option, text in options.items():
        if not text.isdecimal():
            raise DataError(f"Option {option!r} of data kind 'synthetic' must be a whole number, not {text!r}.")
        numbers[option] = int(text)
    return synthetic(numbers["features"], numbers["classes"], numbers["records"], numbers["seed"])


def _options(name: str, kind: _Kind, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in text.split("&"):
        option, _, value = item.partition("=")
        if option not in kind.options:
            near = difflib.get_close_matches(option, kind.options, n=1, cutoff=0.0)
            hint = f"the nearest is {near[0]!r}" if near else "it takes none"
            raise DataError(f"Data kind {name!r} has no option {option!r}; {hint}. Write for example {kind.example}")
        if option in options or not value:
            problem = "is given twice" if option in options else "has no value"
            raise DataError(f"Option {option!r} of data kind {name!r} {problem}. Write for example {kind.example}")
        options[option] = value
    return options
