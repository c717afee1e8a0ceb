"""Specification of a paper: `paper.toml` and one TOML file per figure or table, in a folder under `specs/`."""

import tomllib
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sottovoce.errors import UsageError
from sottovoce.suggestions import suggest_name

_FOLDER = resources.files("sottovoce_lab.papers") / "specs"
_PAPER = "paper"
FULL, QUICK = "full", "quick"

Keys = dict[str, Any]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A panel (a data set or a graph) or a series (an algorithm).

    Attributes:
        label: the display name.
        set: dotted keys and their values.
        at: further dotted keys and their values, by panel name or axis value.
        column: in a heat map, another series that does not depend on the x axis and is drawn as the left column.
        hidden: whether the series is drawn only as another series' column.
    """

    label: str
    set: Keys = {}
    at: dict[str, Keys] = {}
    column: str = ""
    hidden: bool = False


class Axis(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A key that takes several values.

    Attributes:
        key: the dotted key; empty if each series defines with `at` what a value means.
        also: other keys set to the same value.
        label: the display name.
    """

    key: str
    also: list[str] = []
    label: str


class MoreSeeds(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Cells with more seeds than the others, because these decide a claim and their runs cost little.

    Attributes:
        seeds: the number of seeds.
        panels: the names of the panels; all if empty.
        series: the names of the series; all if empty.
        x: the values on the x axis; all if empty.
    """

    seeds: Annotated[int, Meta(ge=1)]
    panels: list[str] = []
    series: list[str] = []
    x: list[Any] = []

    def covers(self, panel: str, series: str, x: Any) -> bool:
        """Return whether a cell is one of these."""
        pairs = ((panel, self.panels), (series, self.series), (x, self.x))
        return all(not chosen or value in chosen for value, chosen in pairs)


class Extent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of an experiment is computed: its seeds, axis values, panels and series.

    Attributes:
        seeds: the number of seeds, 0 … seeds-1; every series uses the same seeds, so differences are paired.
        more_seeds: cells with more seeds.
        minutes: how long the last measured run took on two cores, in minutes.
        x: the values on the x axis.
        y: the values on a heat map's y axis.
        panels: the names of the computed panels; all if empty.
        series: the names of the computed series; all if empty.
        set: dotted keys and their values for every run.
        at: further dotted keys and their values, by panel name.
        scaled: sizes that are smaller than in the paper, with both sizes; empty if there are none.
    """

    seeds: Annotated[int, Meta(ge=1)]
    more_seeds: list[MoreSeeds] = []
    minutes: float
    x: list[Any] = []
    y: list[Any] = []
    panels: list[str] = []
    series: list[str] = []
    set: Keys = {}
    at: dict[str, Keys] = {}
    scaled: str = ""

    def count_seeds(self, panel: str, series: str, x: Any) -> int:
        """Return the number of seeds of a cell."""
        return max([self.seeds, *(more.seeds for more in self.more_seeds if more.covers(panel, series, x))])


class Claim(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A statement about a series, checked in each panel.

    Attributes:
        claim: the statement in words.
        series: the series that the claim is about.
        check: `ahead`: better than each of `than` by more than the margin, on average over the values; `not-behind`:
            not worse than any of `than` by more than the margin at any value; `at-least`: never below `bound`;
            `rises`, `falls`: by more than the margin from the first value to the last.
        of: who makes the claim, either the paper or this project.
        than: the names of the series to compare with.
        along: the axis for `rises` and `falls`.
        bound: the bound for `at-least`.
        margin: the margin, in the measure's own unit.
        x: the x values that the claim is about; all if empty.
        y: the y values that the claim is about; all if empty.
        panels: the names of the panels that the claim is about; all if empty.
        cause: why the claim fails, in one sentence; if the cause is unknown, "unknown, tried: …".
    """

    claim: str
    series: str
    check: Literal["ahead", "not-behind", "at-least", "rises", "falls"]
    of: Literal["paper", "ours"] = "paper"
    than: list[str] = []
    along: Literal["x", "y"] = "x"
    bound: float = 0.0
    margin: float = 0.0
    x: list[Any] = []
    y: list[Any] = []
    panels: list[str] = []
    cause: str = ""


class Cause(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why printed values are not reproduced.

    Attributes:
        cause: the cause in one sentence; if it is unknown, "unknown, tried: …".
        series: the names of the series that it concerns.
        x: the x values that it concerns, as in `Experiment.printed`; all if empty.
    """

    cause: str
    series: list[str]
    x: list[str] = []


class Experiment(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure or table from a paper.

    Attributes:
        title: a one-line title.
        shows: the quantity that is shown.
        measure: the quantity to compare, a name in the report's `final` part.
        picture: `line` for the measure over the x axis, `curves` for measures over cycles, `heat` for the measure over
            both axes, or `plane` for two-dimensional records and their separating lines.
        curves: the measures that `curves` draws.
        log_cycles: whether the cycle axis is logarithmic.
        cycle: the label for the cycle axis, which states what a cycle is.
        x: the x axis.
        y: a heat map's y axis.
        set: dotted keys and their values for every run; `data.source` is relative to the data folder.
        panels: the panels by short name; the paper's panels if empty.
        series: the series by short name.
        printed: the paper's numbers, by panel, series, and x value as a string.
        printed_row: the row of the paper's page for all printed values; empty for a row per series.
        band: the largest accepted distance of our value from the printed one, in the measure's unit; 0 for no claim.
        causes: why printed values are not reproduced; the first that fits a value counts.
        claims: the claims to check.
        full: the extent of the whole experiment.
        quick: the extent of the coarse experiment.
    """

    title: str
    shows: str
    measure: str = "accuracy_mean"
    picture: Literal["line", "curves", "heat", "plane"] = "line"
    curves: tuple[str, ...] = ("accuracy_mean",)
    log_cycles: bool = False
    cycle: str = "cycle"
    x: Axis | None = None
    y: Axis | None = None
    set: Keys = {}
    panels: dict[str, Part] = {}
    series: dict[str, Part]
    printed: dict[str, dict[str, dict[str, float]]] = {}
    printed_row: str = ""
    band: float = 0.0
    causes: list[Cause] = []
    claims: list[Claim] = []
    full: Extent
    quick: Extent

    def extent(self, quick: bool) -> Extent:
        """Return the extent of the coarse or of the whole experiment."""
        return self.quick if quick else self.full


class Reading(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Our interpretation of an ambiguous point in a paper.

    Attributes:
        reading: the interpretation in one sentence.
        effect: the effect of an alternative; empty if it is not measured.
        set: the dotted keys, with their values, that apply the reading; empty if it is a property of the code or data.
        figures: the names of the experiments with these keys, such as `figure-2`; all if empty.
    """

    reading: str
    effect: str = ""
    set: Keys = {}
    figures: list[str] = []


class Omission(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Figures that are not drawn, because they cannot show anything at the scale that can be run.

    Attributes:
        figures: the names of the figures, such as `figure-4`.
        claims: the claims of each of these figures, which stay open.
        reason: the reason in one sentence.
    """

    figures: list[str]
    claims: list[str]
    reason: str


class Paper(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A paper with its experiments.

    Attributes:
        title: the title for the paper's page.
        reference: the authors, title and year.
        about: a description of all of the paper's experiments.
        readings: our readings of ambiguous points.
        errors: errors in the paper, one sentence each.
        omitted: figures that are not drawn.
        headlines: the rows of the paper's table that the index repeats, by what the paper says in them.
        set: dotted keys and their values for every run in every experiment.
        panels: the panels for experiments that do not define their own.
    """

    title: str
    reference: str
    about: str
    readings: list[Reading] = []
    errors: list[str] = []
    omitted: list[Omission] = []
    headlines: list[str] = []
    set: Keys = {}
    panels: dict[str, Part] = {}


def papers() -> list[str]:
    """Return the names of the papers."""
    return sorted(entry.name for entry in _FOLDER.iterdir() if entry.is_dir())


def experiments(paper: str | None = None) -> list[str]:
    """Return the names, `PAPER/FIGURE`, of a paper's experiments or of all experiments."""
    return [
        f"{name}/{entry.name.removesuffix('.toml')}"
        for name in (papers() if paper is None else [paper])
        for entry in sorted((_FOLDER / name).iterdir(), key=_file_name)
        if entry.name.endswith(".toml") and entry.name != f"{_PAPER}.toml"
    ]


def expand_names(names: list[str]) -> list[str]:
    """Expand paper and experiment names to experiment names without duplicates; by default, return all experiments.

    Raises:
        UsageError: if a paper or experiment does not exist or is not drawn.
    """
    known = {**{name: [name] for name in experiments()}, **{name: experiments(name) for name in papers()}}
    for name in names:
        paper, _, figure = name.partition("/")
        for omission in read_paper(paper).omitted if paper in papers() else ():
            if figure in omission.figures:
                raise UsageError(f"{name} is not drawn: {omission.reason}")
    if unknown := [name for name in names if name not in known]:
        nearest = suggest_name(unknown[0], known)
        remedy = f"Did you mean {nearest}?" if nearest else f"Choose from {', '.join(papers())}, or see --list."
        raise UsageError(f"There is no figure, table or paper named {unknown[0]}. {remedy}")
    return list(dict.fromkeys(experiment for name in names or papers() for experiment in known[name]))


@cache
def read_paper(name: str) -> Paper:
    """Read the specification of the paper with this name."""
    return msgspec.convert(_toml(name, _PAPER), Paper)


@cache
def read_experiment(name: str) -> Experiment:
    """Read the specification of the experiment with this name, including its paper's keys and panels."""
    folder, _, figure = name.partition("/")
    experiment, paper = msgspec.convert(_toml(folder, figure), Experiment), read_paper(folder)
    return msgspec.structs.replace(
        experiment, set={**paper.set, **experiment.set}, panels=experiment.panels or paper.panels
    )


def _toml(folder: str, name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / folder / f"{name}.toml").read_text(encoding="utf-8"))


def _file_name(entry: Any) -> str:
    name: str = entry.name
    return name
