"""What a figure consists of: its TOML file in `specs/`, checked."""

import tomllib
from importlib import resources
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sottovoce.errors import UsageError

_FOLDER = resources.files("sottovoce_lab.experiments.figures") / "specs"


class Extent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of a figure is computed.

    Attributes:
        runs: seeds 0 … runs-1.
        epsilon: values of ε; infinity for no noise.
        k: values of k, where the figure has such an axis.
        most_agents: devices, at most, for each data set that is limited; others have as many as there are records.
        set: dotted keys and values for every simulation.
    """

    runs: Annotated[int, Meta(ge=1)]
    epsilon: list[float]
    k: list[int] = []
    most_agents: dict[str, int] = {}
    set: dict[str, Any] = {}


class Series(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One curve or surface of a figure.

    Attributes:
        label: in words.
        k: keys that take the value of k; none when the series does not depend on it.
        set: dotted keys and values.
    """

    label: str
    k: list[str] = []
    set: dict[str, Any] = {}


class Claim(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A qualitative finding, to be checked against the means over runs on each data set.

    Attributes:
        claim: in words.
        series: the series that it is about.
        check: `not-below`: at least as accurate as the series `other`, for every ε and k; `above`: on average over
            ε and k more accurate than `other` by more than the margin; `rises-with-epsilon`, `rises-with-k`,
            `falls-with-k`: from the least value of the axis to the largest, on average over the other axis, by more
            than the margin.
        other: the series to compare with; `noiseless`: the same one without noise.
        margin: in shares of accuracy.
        epsilon: the values of ε it is about; all when empty.
        k: the values of k it is about; all when empty.
    """

    claim: str
    series: str
    check: Literal["not-below", "above", "rises-with-epsilon", "rises-with-k", "falls-with-k"]
    other: str = ""
    margin: float = 0.01
    epsilon: list[float] = []
    k: list[int] = []


class FigureSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure.

    Attributes:
        title: one line.
        shows: what is shown, and what of it is our reading of the paper.
        kind: `curves` over cycles; `grid` over ε and k; `boundary`: two-dimensional data with its separating lines.
        data: for each data set, the dotted keys and values that name it; `data.source` is relative to the data folder.
        series: by short name.
        findings: what is checked.
        full: the whole figure.
        quick: a coarse one.
    """

    title: str
    shows: str
    kind: Literal["curves", "grid", "boundary"]
    data: dict[str, dict[str, Any]]
    series: dict[str, Series]
    findings: list[Claim] = []
    full: Extent
    quick: Extent


def figure_names() -> list[str]:
    """The names that `sottovoce reproduce` knows."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def figure_named(name: str) -> FigureSpec:
    """The figure of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in figure_names():
        raise UsageError(f"{name}: there is no such figure; choose from {', '.join(figure_names())}")
    return msgspec.convert(tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8")), FigureSpec)
