"""Formats as templates: which messages fit a format, and with which values for its `{words}`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.config import FormatSection
from sottovoce.config.feed import BuiltInFormat, ValueSection
from sottovoce.errors import MessageRefused

from sottovoce_home.detection.words import GENERIC, Leaf
from sottovoce_home.meters.payload import extract_value, parse_number

PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True, slots=True)
class Fit:
    """A message that fits one value of a format.

    Attributes:
        form: the format.
        index: which of the format's values the message contains.
        names: values for the format's placeholders, in order.
        identity: the meter's number in the message; empty if the format has none.
        time: the measurement time as published; None if the format has none.
        leaf: where the number is.
        number: the number, in the unit that the message uses.
    """

    form: FormatSection
    index: int
    names: tuple[tuple[str, str], ...]
    identity: str
    time: Any
    leaf: Leaf
    number: float


class FormatTemplate:
    """A format, compared with messages.

    Args:
        form: the format.
    """

    def __init__(self, form: FormatSection) -> None:
        self.form = form
        self._topics = [_topic_pattern(value.topic) for value in form.values]
        self._paths = [
            () if value.path is None else tuple(_pattern(part, "[^\0]+?") for part in value.path.split("."))
            for value in form.values
        ]
        self._last = [_last_name(value) for value in form.values]
        self.usual = form.usual if isinstance(form, BuiltInFormat) else {}
        """Usual values for some of the format's placeholders."""
        self.names_tool = all("{" not in value.topic.partition("/")[0] for value in form.values)
        """Whether the topics begin with the tool's name."""

    def says_what(self, names: Mapping[str, str]) -> bool:
        """Return whether the format, with these names, determines that a number is what the format declares."""
        words = {word for name in self._last for word in PLACEHOLDER.findall(name)}
        return all(names.get(word) in self.usual.get(word, ()) for word in words)

    def fits(self, topic: str, content: Any, number: float | None) -> Iterator[Fit]:
        """Yield how a message fits this format.

        Args:
            topic: topic of the message.
            content: its content as JSON; None if it is not a JSON object or list.
            number: its content as one number; None if it is not.
        """
        for index, (pattern, path) in enumerate(zip(self._topics, self._paths, strict=True)):
            if (match := pattern.fullmatch(topic)) is None:
                continue
            if self.form.payload == "plain":
                if number is not None:
                    yield self._fit(index, match.groupdict(), "", None, (topic, ()), number)
                continue
            for keys, names, value in _walk(content, path, match.groupdict()):
                try:
                    found = parse_number(value)
                    identity = "" if self.form.id is None else str(_at(content, self.form.id))
                    time = None if self.form.time is None else _at(content, self.form.time)
                except MessageRefused:
                    continue
                yield self._fit(index, names, identity, time, (topic, keys), found)

    def _fit(self, index: int, names: dict[str, str], identity: str, time: Any, leaf: Leaf, number: float) -> Fit:
        ordered = tuple((word, names[word]) for word in self.form.placeholders if word in names)
        return Fit(self.form, index, ordered, identity, time, leaf, number)


def _last_name(value: ValueSection) -> str:
    """Return the last level or key of a value that is neither generic nor an index."""
    names = [*value.topic.split("/"), *(value.path or "").split(".")]
    return next(name for name in reversed(names) if name and name.lower() not in GENERIC and not name.isdecimal())


def _at(content: Any, dotted: str) -> Any:
    return extract_value(content, tuple(dotted.split(".")))


def _topic_pattern(topic: str) -> re.Pattern[str]:
    """Return the pattern of a topic; a name that is the whole first or last level may itself contain slashes."""
    levels = topic.split("/")
    parts = []
    for i, level in enumerate(levels):
        is_edge = i in (0, len(levels) - 1)
        wild = {"+": "[^/]+", "#": ".+"}.get(level)
        parts.append(wild or _pattern(level, ".+" if is_edge and PLACEHOLDER.fullmatch(level) else "[^/]+").pattern)
    return re.compile("/".join(parts), re.DOTALL)


def _pattern(text: str, name: str) -> re.Pattern[str]:
    seen: set[str] = set()
    pattern = ""
    for i, part in enumerate(PLACEHOLDER.split(text)):
        if i % 2 == 0:
            pattern += re.escape(part)
        else:
            pattern += f"(?P={part})" if part in seen else f"(?P<{part}>{name})"
            seen.add(part)
    return re.compile(pattern, re.DOTALL)


def _walk(
    content: Any, path: tuple[re.Pattern[str], ...], names: dict[str, str]
) -> Iterator[tuple[tuple[str, ...], dict[str, str], Any]]:
    """Yield the keys, names and value at each place of a JSON document that a path matches."""
    if not path:
        yield (), names, content
        return
    items: Iterable[tuple[str, Any]]
    if isinstance(content, dict):
        items = content.items()
    elif isinstance(content, list):
        items = ((str(i), value) for i, value in enumerate(content))
    else:
        return
    for key, value in items:
        match = path[0].fullmatch(key)
        if match is None or any(names.get(word, found) != found for word, found in match.groupdict().items()):
            continue
        for keys, known, inner in _walk(value, path[1:], {**names, **match.groupdict()}):
            yield (key, *keys), known, inner
