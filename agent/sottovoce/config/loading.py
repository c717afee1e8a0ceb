"""Loading of a configuration from a TOML file, with one error line for each invalid table."""

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from sottovoce.config.effect import contradicting_keys, keys_without_effect
from sottovoce.config.schema import AgentConfig, WholeConfig
from sottovoce.days import DAY, NOT_BEFORE, with_day_numbers
from sottovoce.errors import ConfigError
from sottovoce.learning.model_names import GRAPH_SUFFIX, GRAPH_TRANSFORM, REGRESSION_MODEL, has_graph
from sottovoce.learning.registry import (
    ALGORITHMS,
    DEFAULT,
    foreign_key_error,
    loaded_algorithms,
    unknown_name_hint,
)
from sottovoce.learning.settings import LearnerSettings
from sottovoce.suggestions import suggest_name

_TASK_FACTS = {
    "features": 10,
    "classes": 1,
    "expected_records": 44,
    "transform": "none",
    "windows": [int(NOT_BEFORE // DAY), int(NOT_BEFORE // DAY) + 3652],
}
KeyPath = tuple[str | int, ...]
LineFinder = Callable[[KeyPath], int | None]


def load(path: Path) -> AgentConfig:
    """Read an agent's configuration.

    Relative paths in the file are relative to the file's directory.

    Raises:
        ConfigError: if the file cannot be read or a table is wrong; the message states the line, the key and the
            remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); specify the path of a configuration file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text; a configuration must be a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    config = config_from_tables(_with_task_to_come(tables), str(path), lambda key: find_line(text, key))
    if math.isinf(config.privacy.epsilon):
        line = find_line(text, ("privacy", "epsilon"))
        raise ConfigError(
            f"{path}, line {line}: privacy.epsilon: inf would publish without noise, which is allowed only in "
            "the testbed; set a finite ε, for example 2.0"
        )
    if config.data.ranges == "training":
        line = find_line(text, ("data", "ranges"))
        raise ConfigError(
            f"{path}, line {line}: data.ranges: ranges computed from records would be a release outside the budget, "
            "which is allowed only in the testbed; declare the ranges under data.bounds"
        )
    faults = [*keys_without_effect(tables, config), *contradicting_keys(tables, config)]
    if faults:
        raise ConfigError("\n".join(_key_error_message(path, text, key, reason) for key, reason in faults))
    base = path.absolute().parent
    feed = msgspec.structs.replace(
        config.feed,
        ca=config.feed.ca and base / config.feed.ca,
        password_file=config.feed.password_file and base / config.feed.password_file,
        store=base / config.feed.file.expanduser(),
    )
    mqtt = msgspec.structs.replace(
        config.transport.mqtt,
        ca=config.transport.mqtt.ca and base / config.transport.mqtt.ca,
        password_file=config.transport.mqtt.password_file and base / config.transport.mqtt.password_file,
    )
    return msgspec.structs.replace(
        config,
        feed=feed,
        transport=msgspec.structs.replace(config.transport, mqtt=mqtt),
        agent=msgspec.structs.replace(config.agent, state=base / config.agent.state),
        learner=msgspec.structs.replace(config.learner, model=_resolve_model(config.learner.model, base)),
        data=msgspec.structs.replace(
            config.data,
            source=_resolve_source(config.data.source, base, feed.file),
            public=config.data.public and _resolve_source(config.data.public, base, feed.file),
        ),
        vault=msgspec.structs.replace(
            config.vault,
            socket=config.vault.socket and base / config.vault.socket,
            directory=config.vault.directory and base / config.vault.directory,
            policy=config.vault.policy and base / config.vault.policy,
            graph_directory=config.vault.graph_directory and base / config.vault.graph_directory,
        ),
    )


def _with_task_to_come(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables of a home that leaves to signed tasks what its meter's feed is used for.

    Until the first task, such a home is described as one that would forecast, and releases nothing.
    """
    data, learner, vault = (tables.get(name, {}) for name in ("data", "learner", "vault"))
    if not all(isinstance(table, Mapping) for table in (data, learner, vault)):
        return tables  # the error is reported when the tables are checked
    is_feed = str(data.get("source", "")).startswith("feed:")
    if not is_feed or learner or _TASK_FACTS.keys() & data.keys() or vault.get("tasks", "signed") != "signed":
        return tables
    return {
        **tables,
        "data": {**_TASK_FACTS, **data},
        "learner": {"model": REGRESSION_MODEL},
        "vault": {**vault, "tasks": "signed"},
    }


def _key_error_message(path: Path, text: str, key: KeyPath, reason: str) -> str:
    """Return the error message for a key in a file, without a line number if the key is missing."""
    line = find_line(text, key)
    return f"{path}{f', line {line}' if line else ''}: {'.'.join(map(str, key))}: {reason}"


def _resolve_model(model: str | None, base: Path) -> str | None:
    """Return a model's name or, if the model is a file, its path resolved against the configuration's directory."""
    return str(base / Path(model).expanduser()) if model is not None and model.endswith(GRAPH_SUFFIX) else model


def _resolve_source(source: str, base: Path, store: Path) -> str:
    """Return a data SPEC with its path resolved against the configuration's directory; a feed uses `feed.store`."""
    address, hash_sign, options = source.partition("#")
    kind, _, location = address.partition(":")
    if kind == "feed":
        return f"{address}#store={store}{'&' if options else ''}{options}"
    if not location:
        return source
    return f"{kind}:{base / Path(location).expanduser()}{hash_sign}{options}"


def config_from_tables(tables: Mapping[str, Any], origin: str, find_line: LineFinder = lambda key: None) -> AgentConfig:
    """Return a configuration built from parsed tables.

    Args:
        tables: tables as returned by tomllib.
        origin: name of the tables' source, for error messages.
        find_line: function that returns a key's line number, or None if there is none.

    Raises:
        ConfigError: if a table is wrong; the message has one line per wrong table, with the key and the remedy.
    """
    tables = with_day_numbers(tables)
    learner = tables.get("learner", {})
    kind, own_table, problems = _split_learner_table(learner, origin, find_line)
    checked_tables, types = {**tables, "learner": own_table}, _table_types(kind)
    for name, table in checked_tables.items():
        try:
            if name in types:
                msgspec.convert(table, types[name], dec_hook=_decode_path)
        except msgspec.ValidationError as error:
            problems.append(_error_line(str(error), (name,), types, origin, find_line))
    if not problems:
        try:
            return msgspec.convert(_with_transform(checked_tables), WholeConfig[kind], dec_hook=_decode_path)  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            problems.append(_error_line(str(error), (), types, origin, find_line))
    raise ConfigError("\n".join(problems))


def learner_settings(table: Mapping[str, Any], origin: str) -> LearnerSettings:
    """Return the learner settings from a `[learner]` table without the rest of a configuration.

    Args:
        table: `[learner]`, as returned by tomllib.
        origin: name of the table's source, for error messages.

    Raises:
        ConfigError: if the table is wrong; the message has one line per problem, with the key and the remedy.
    """
    kind, own_table, problems = _split_learner_table(table, origin, lambda key: None)
    if not problems:
        try:
            return msgspec.convert(own_table, kind)
        except msgspec.ValidationError as error:
            problems.append(_error_line(str(error), ("learner",), _table_types(kind), origin, lambda key: None))
    raise ConfigError("\n".join(problems))


def _split_learner_table(
    table: Any, origin: str, find_line: LineFinder
) -> tuple[type[LearnerSettings], Any, list[str]]:
    """Return the learner's settings type, its table without other learners' keys, and an error line per such key."""
    default_settings = cast(type[LearnerSettings], loaded_algorithms()[DEFAULT].settings)
    if not isinstance(table, dict):
        return default_settings, table, []
    name = table.get("name", DEFAULT)
    if not isinstance(name, str) or name not in ALGORITHMS:
        message = f"unknown learner; {unknown_name_hint(name)}" if isinstance(name, str) else "Expected `str`"
        return default_settings, {}, [_error_line(f"{message} - at `$.name`", ("learner",), {}, origin, find_line)]
    foreign = {key: problem for key in table if (problem := foreign_key_error(name, key)) is not None}
    own_table = {key: value for key, value in table.items() if key not in foreign}
    problems = []
    for key, problem in foreign.items():
        line = find_line(("learner", key))
        problems.append(f"{origin}, line {line}: {problem}" if line else f"{origin}: {problem}")
    return cast(type[LearnerSettings], ALGORITHMS[name].settings), own_table, problems


def _table_types(kind: type[LearnerSettings]) -> dict[str, Any]:
    """Return the annotated types of all tables, with `kind` as the type of the learner table."""
    return {**get_type_hints(WholeConfig, include_extras=True), "learner": kind}


def _with_transform(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables, with a graph model's default transform added if no transform is set."""
    data, learner = tables.get("data", {}), tables.get("learner", {})
    if not has_graph(str(learner.get("model", ""))) or data.get("classes") == 1:
        return dict(tables)
    return {**tables, "data": {"transform": GRAPH_TRANSFORM, **data}}


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"expected a path, got {type(value).__name__}")


def _error_line(message: str, table: KeyPath, types: Mapping[str, Any], origin: str, find_line: LineFinder) -> str:
    """Rewrite a msgspec error as one line with the location, the key, the error and the remedy."""
    message, *locations = message.split(" - at `$")  # the innermost table comes first
    path = "".join(reversed(locations))
    location = table + tuple(int(index) if index else name for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path))
    remedy = ""
    if match := re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", message):
        location = (*location, match[2])
        if match[1] == "missing required":
            message = "missing; add it"
        else:
            known_keys = _known_keys(location[:-1], types)
            similar = suggest_name(match[2], known_keys)
            message = "unknown key"
            remedy = f"; did you mean `{similar}`?" if similar else f"; known keys here: {', '.join(known_keys)}"
    elif message.startswith("Expected `str` matching regex"):
        message = "does not have the required form"
    line = find_line(location) or find_line(location[:-1])
    source = f"{origin}, line {line}" if line else origin
    key = ".".join(str(part) for part in location)
    return f"{source}: {key}: {message}{remedy}{_key_description(location, types)}"


def _key_description(location: KeyPath, types: Mapping[str, Any]) -> str:
    """Return the description and the choices of a key from the schema, in brackets."""
    annotation: Any = _find_annotation(location, types)
    notes = [meta.description for meta in get_args(annotation) if isinstance(meta, Meta) and meta.description]
    inner = get_args(annotation)[0] if notes else annotation
    literals = [alternative for alternative in get_args(inner) if "Literal" in str(get_origin(alternative))]
    if literals:  # an optional key
        inner = literals[0]
    if "Literal" in str(get_origin(inner)):
        notes.append("one of " + ", ".join(f'"{choice}"' for choice in get_args(inner)))
    return f" ({'; '.join(notes)})" if notes else ""


def _known_keys(location: KeyPath, types: Mapping[str, Any]) -> list[str]:
    """Return the keys of the table at a location."""
    if not location:
        return [*types]
    annotation = _find_annotation(location, types)
    return [*annotation.__struct_fields__] if isinstance(annotation, type) and issubclass(annotation, Struct) else []


def _find_annotation(location: KeyPath, types: Mapping[str, Any]) -> Any:
    """Return the annotated type at a location in the schema; None if the location does not exist."""
    annotation: Any = types.get(str(location[0])) if location else None
    for part in location[1:]:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        if isinstance(part, int):
            annotation = next(iter(get_args(annotation)), None)
        elif isinstance(annotation, type) and issubclass(annotation, Struct):
            annotation = get_type_hints(annotation, include_extras=True).get(part)
        else:
            return None
    return annotation


def find_line(text: str, key: KeyPath) -> int | None:
    """Return the line on which the first statement that sets `key` begins; None if there is no such statement.

    A document's first lines can be parsed on their own only if they end between two statements. Therefore, the shortest
    parsable prefix that contains the key ends with the key's statement.
    """
    lines = text.splitlines(keepends=True)
    previous_end = 0
    for count in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if _has_key(document, key):
            return previous_end + 1
        previous_end = count
    return None


def _has_key(document: Any, key: KeyPath) -> bool:
    for part in key:
        if isinstance(document, list) and isinstance(part, int):
            is_present = part < len(document)
        else:
            is_present = isinstance(document, dict) and part in document
        if not is_present:
            return False
        document = document[part]
    return bool(key)
