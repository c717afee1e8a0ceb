"""What a study consists of: its TOML file in `specs/`, checked."""

import tomllib
from importlib import resources
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sottovoce.errors import UsageError

_FOLDER = resources.files("sottovoce_lab.experiments.studies") / "specs"


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A panel (a data set, a graph) or a series (an algorithm) of a study.

    Attributes:
        label: in words.
        set: dotted keys and values.
        at: more of them for a panel, by its name, or for a value of the axis, as a string.
    """

    label: str
    set: dict[str, Any] = {}
    at: dict[str, dict[str, Any]] = {}


class Extent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of a study is computed.

    Attributes:
        seeds: 0 … seeds-1, the same for every series, so that differences are paired.
        values: of the axis.
        minutes: that it took when it was last measured, on two cores.
        panels: those that are computed; all when empty.
        series: likewise.
        set: dotted keys and values for every run.
    """

    seeds: Annotated[int, Meta(ge=1)]
    values: list[Any]
    minutes: float
    panels: list[str] = []
    series: list[str] = []
    set: dict[str, Any] = {}


class Claim(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A finding, to be checked in each panel against the runs.

    Attributes:
        claim: in words.
        series: the series that it is about.
        check: `above`: on average over values, and with 95 % confidence over paired seeds, ahead of each of `than` by
            more than the margin; `not-below`: nowhere, on average over seeds, behind any of `than` by more than the
            margin; `at-least`: on average over seeds nowhere below `bound`; `rises`: larger at the last value than at
            the first.
        than: series to compare with.
        bound: of `at-least`.
        margin: in the measure's own unit.
        values: those of the axis it is about; all when empty.
        panels: those it is about; all when empty.
    """

    claim: str
    series: str
    check: Literal["above", "not-below", "at-least", "rises"]
    than: list[str] = []
    bound: float = 0.0
    margin: float = 0.0
    values: list[Any] = []
    panels: list[str] = []


class StudySpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A study.

    Attributes:
        title: one line.
        paper: which table or figure of which paper.
        shows: what is shown, and what of it is our reading of the paper.
        differs: what explains a difference between the paper's numbers and ours.
        measure: what is compared: a name of the report's `final` part.
        axis: the dotted key that takes each value; empty for none.
        axis_label: the same in words.
        plot: measure over the axis, or over cycles at its last value.
        set: dotted keys and values for every run; `data.source` is relative to the data folder.
        panels: by short name.
        series: by short name.
        paper_values: what the paper prints: panel, series, then value of the axis as a string.
        band: how far from the paper's value ours may lie, where the data are the paper's; 0 for no claim.
        findings: what is checked.
        full: the whole study.
        quick: a coarse one.
    """

    title: str
    paper: str
    shows: str
    differs: str
    measure: str = "accuracy_mean"
    axis: str = ""
    axis_label: str = ""
    plot: Literal["axis", "cycles"] = "axis"
    set: dict[str, Any] = {}
    panels: dict[str, Part]
    series: dict[str, Part]
    paper_values: dict[str, dict[str, dict[str, float]]] = {}
    band: float = 0.0
    findings: list[Claim] = []
    full: Extent
    quick: Extent


def studies() -> list[str]:
    """The names of all studies."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def study_named(name: str) -> StudySpec:
    """The study of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in studies():
        raise UsageError(f"{name}: there is no such study; choose from {', '.join(studies())}")
    return msgspec.convert(tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8")), StudySpec)
