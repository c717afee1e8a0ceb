"""Typed schema for the settings of `sottovoce simulate`, read from TOML files and `--set` options."""

import math
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sottovoce.errors import ConfigError, UsageError
from sottovoce.suggestions import suggest_name

from sottovoce_lab.simulator.vector import PEERS, LogNormal, Network
from sottovoce_lab.testbed.assignments import parse_assignments

_MAX = 10_000_000
_MAX_HALVINGS = 500
_ALIASES = {"data": "data.source", "learner": "learner.name"}
_KINDS_WITH_PATH = ("csv", "idx", "npz")


class DataSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[data]`: the records and their transform. `data = X` is shorthand for `data.source = X`."""

    source: Annotated[str, Meta(description="a data SPEC, `synthetic` or `two-gaussians`")] = "synthetic"
    features: Annotated[int, Meta(ge=1, le=100_000, description="synthetic: number of features, d")] = 20
    classes: Annotated[int, Meta(ge=2, le=1000, description="synthetic: number of classes, c")] = 2
    bounds: Annotated[
        Literal["declared", "training"] | tuple[float, float] | None,
        Meta(
            description="feature ranges: declared, [LOW, HIGH] for all features, or training: the training set's (no ε)"
        ),
    ] = None
    transform: Annotated[str | None, Meta(description="steps of the feature transform")] = None


class LearnerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[learner]`: the learner. `learner = X` is shorthand for `learner.name = X`."""

    name: Literal["golf", "gradient-walk", "sequential-sgd"] = "golf"
    model: Annotated[
        Literal["ridge", "pegasos", "logistic"] | None,
        Meta(
            description="default: ridge, but pegasos with fidelity paper, for walks, and in fleets too large for ridge"
        ),
    ] = None
    mixing: Annotated[
        Literal["records", "push-sum"],
        Meta(description="ridge: devices exchange records, or shares of the sums over them"),
    ] = "records"
    perturbation: Annotated[
        Literal["best", "laplace", "privunit", "krr-privunit"],
        Meta(description="how records are perturbed; best: chosen by a public rule"),
    ] = "best"
    budget: Annotated[
        Literal["once", "k-times", "halving"], Meta(description="gradient-walk: how ε is spent over visits")
    ] = "once"
    visits: Annotated[
        int, Meta(ge=1, le=10_000, description="gradient-walk: number of visits for k-times and halving, k")
    ] = 1
    batch: Annotated[int, Meta(ge=1, le=1_000_000, description="number of records per update of a walk")] = 1

    def __post_init__(self) -> None:
        """Check that halving ε on every visit leaves a positive ε for the last one."""
        if self.budget == "halving" and self.visits > _MAX_HALVINGS:
            raise ValueError(
                f"halving must have at most {_MAX_HALVINGS} visits; after more, no ε is left - at `$.visits`"
            )


class FaultSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[faults]`: network and device faults."""

    drop: Annotated[float, Meta(ge=0, lt=1, description="probability that a message is lost")] = 0.0
    delay: Annotated[
        tuple[int, int] | int, Meta(description="message delay in cycles: a number, or [MIN, MAX] for a uniform delay")
    ] = 0
    churn: Annotated[
        str, Meta(description="none, or lognormal(MU, SIGMA): log-normal lengths of online sessions, in cycles")
    ] = "none"
    online: Annotated[
        float, Meta(gt=0, le=1, description="with churn: share of devices that are online at any moment")
    ] = 0.9

    def __post_init__(self) -> None:
        """Check constraints that involve more than one value."""
        low, high = self.network.delay
        if not 0 <= low <= high <= 1000:
            raise ValueError(
                "write a number of cycles from 0 to 1000, or two such numbers, with the smaller first - at `$.delay`"
            )
        _ = self.sessions

    @property
    def network(self) -> Network:
        """The message faults."""
        return Network(self.drop, (self.delay, self.delay) if isinstance(self.delay, int) else self.delay)

    @property
    def sessions(self) -> LogNormal:
        """The distribution of online sessions."""
        if self.churn == "none":
            return LogNormal()
        match = re.fullmatch(r"lognormal\(([-+0-9.e]+), *([0-9.e]+)\)", self.churn)
        try:
            mu, sigma = (float(match[1]), float(match[2])) if match else (math.nan, math.nan)
        except ValueError:
            mu = sigma = math.nan
        if not (-2 <= mu <= 20 and 0 <= sigma <= 5):
            raise ValueError("write none, or for example lognormal(0,1) - at `$.churn`")
        return LogNormal(self.online, mu, sigma)


class EvaluationSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[evaluate]`: how to evaluate the fleet."""

    nodes: Annotated[
        int, Meta(ge=1, le=10_000, description="number of random devices that are measured in a cycle")
    ] = 100
    every: Annotated[int, Meta(ge=1, le=_MAX, description="number of cycles between measurements")] = 1


class PrivacySettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[privacy]`: privacy settings."""

    allow_unproved: Annotated[bool, Meta(description="allow runs for which no ε holds")] = False


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings for a whole simulation."""

    agents: Annotated[
        Annotated[int, Meta(ge=1, le=_MAX)] | None,
        Meta(description="number of devices; default: as many as the records allow"),
    ] = None
    cycles: Annotated[
        int, Meta(ge=1, le=_MAX, description="number of cycles, or of passes of a walk over all devices")
    ] = 50
    seed: Annotated[int, Meta(ge=0, le=2**62, description="seed of all randomness")] = 0
    epsilon: Annotated[float, Meta(gt=0, description="ε of each record; inf for no noise")] = 5.0
    fidelity: Literal["sound", "paper"] = "sound"
    topology: Annotated[str, Meta(description=", ".join(PEERS))] = "uniform"
    partition: Annotated[str, Meta(description="one-record: each device has one record")] = "one-record"
    data: DataSettings = DataSettings()
    learner: LearnerSettings = LearnerSettings()
    faults: FaultSettings = FaultSettings()
    evaluate: EvaluationSettings = EvaluationSettings()
    privacy: PrivacySettings = PrivacySettings()

    def __post_init__(self) -> None:
        """Check constraints that involve more than one value."""
        if self.topology not in PEERS:
            raise ValueError(f"choose one of {', '.join(PEERS)} - at `$.topology`")
        if self.partition != "one-record":
            raise ValueError(
                "the vector engine's devices must have one record each; write one-record - at `$.partition`"
            )
        if self.mixes_sums:
            self._check_sums()
        if self.learner.name != "golf" and self.learner.model == "ridge":
            raise ValueError("a walk supports only the models pegasos and logistic - at `$.learner.model`")
        if self.epsilon > 500 and not math.isinf(self.epsilon):
            raise ValueError(
                "an ε above 500 promises nothing; choose a smaller ε, or inf for no noise - at `$.epsilon`"
            )

    def _check_sums(self) -> None:
        golf = self.learner.name == "golf" and self.fidelity == "sound"
        if not golf or self.learner.model not in (None, "ridge"):
            raise ValueError("sums can be mixed only with golf's ridge model; write records - at `$.learner.mixing`")
        if self.faults != FaultSettings():
            raise ValueError("this engine cannot mix sums if faults are set; omit [faults] - at `$.learner.mixing`")

    @property
    def mixes_sums(self) -> bool:
        """Whether devices exchange sums over records instead of the records themselves."""
        return self.learner.mixing == "push-sum"

    @property
    def is_noiseless(self) -> bool:
        """Whether the run adds no noise, and therefore promises no privacy."""
        return math.isinf(self.epsilon)


KEYS = tuple(
    f"{table.name}.{field.name}" if issubclass(type(table.default), Struct) else table.name
    for table in msgspec.structs.fields(Settings)
    for field in (msgspec.structs.fields(type(table.default)) if issubclass(type(table.default), Struct) else (table,))
)


def from_file(path: Path, known: Collection[str] | None = KEYS) -> dict[str, Any]:
    """Read dotted keys and values from a TOML file. Relative paths in a data SPEC are relative to the file.

    Args:
        path: file path.
        known: the valid keys; None to accept any key.

    Raises:
        ConfigError: if the file cannot be read or contains an unknown key.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: the file cannot be read ({error.strerror}); specify a TOML file or a built-in name"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the file is not UTF-8 text; specify a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: the file is not valid TOML: {error}") from error
    values = flatten(tables, str(path), known)
    if isinstance(source := values.get("data.source"), str):
        values["data.source"] = _resolve_source(source, path.absolute().parent)
    return values


def flatten(tables: Mapping[str, Any], origin: str, known: Collection[str] | None = KEYS) -> dict[str, Any]:
    """Flatten nested tables into dotted keys and values.

    Raises:
        ConfigError: if a key is unknown; the message suggests the nearest known key.
    """
    values: dict[str, Any] = {}
    for name, value in tables.items():
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, item in entries:
            dotted = f"{name}.{key}" if key else _ALIASES.get(name, name)
            if known is not None and dotted not in known:
                raise ConfigError(f"{origin}: {dotted}: unknown key.{_hint(dotted)}")
            values[dotted] = item
    return values


def from_assignments(assignments: Sequence[str], known: Collection[str] | None = KEYS) -> dict[str, Any]:
    """Parse dotted keys and TOML values from `--set KEY=VALUE`. A value that is not TOML is used as a string.

    Args:
        assignments: strings in the form KEY=VALUE.
        known: the valid keys; None to accept any key.

    Raises:
        UsageError: if a string is not an assignment, or a key is unknown; the message suggests the nearest known key.
    """
    values = parse_assignments(assignments, "epsilon=2", _ALIASES)
    for key in values:
        if known is not None and key not in known:
            raise UsageError(f"--set {key}: unknown key.{_hint(key)}")
    return values


def build_settings(values: Mapping[str, Any], origin: str) -> Settings:
    """Build settings from dotted keys.

    Raises:
        ConfigError: if a value is invalid; the message names its key.
    """
    tables: dict[str, Any] = {}
    for key, value in values.items():
        table, dot, name = _ALIASES.get(key, key).partition(".")
        if dot:
            tables.setdefault(table, {})[name] = value
        else:
            tables[table] = value
    try:
        return msgspec.convert(tables, Settings, strict=True)
    except msgspec.ValidationError as error:
        message, *paths = str(error).split(" - at `$")  # checks in this module append a path within their table
        path = "".join(part.rstrip("`") for part in reversed(paths)).lstrip(".")
        raise ConfigError(f"{origin}: {path}: {message}") from error


def _resolve_source(source: str, directory: Path) -> str:
    head, hash_sign, options = source.partition("#")
    kind, _, location = head.partition(":")
    if kind not in _KINDS_WITH_PATH or not location:
        return source
    return f"{kind}:{directory / Path(location).expanduser()}{hash_sign}{options}"


def _hint(key: str) -> str:
    names = [*KEYS, *_ALIASES]
    nearest = suggest_name(key, names) or suggest_name(key.rpartition(".")[2], names)
    return f" Did you mean `{nearest}`?" if nearest else f" The known keys are {', '.join(KEYS)}."
