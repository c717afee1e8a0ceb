"""The report of a detection: TOML tables for the owner's terminal, and what is uncertain as comments."""

from typing import Any

from sottovoce_home.detection.detector import Detector
from sottovoce_home.detection.proposals import Choice, Proposal

_MAX_LISTED = 16
_MAX_SHOWN = 120


def describe(detector: Detector, choice: Choice, *, shows_readings: bool) -> list[str]:
    """Return the lines of the report, which together are valid TOML.

    Args:
        detector: what was heard.
        choice: what was chosen.
        shows_readings: whether to show what the counters read, which only a terminal may.
    """
    lines = [f"# {detector.messages} messages on {len(detector.topics)} topics"]
    for proposal in choice.proposals:
        lines += ["", *_tables(proposal, shows_readings=shows_readings)]
    unreadable = list(choice.unreadable.items())
    lines += [""] if unreadable else []
    lines += [
        f"# looks like a meter, but cannot be read: {_shown(topic)}: {why}" for topic, why in unreadable[:_MAX_LISTED]
    ]
    if len(unreadable) > _MAX_LISTED:
        lines.append(f"# {len(unreadable) - _MAX_LISTED} more topics look like meters, but cannot be read")
    if detector.is_full:
        lines.append("# more was heard than is held: some meters may be missing; listen with a user who may read less")
    return lines


def _tables(proposal: Proposal, *, shows_readings: bool) -> list[str]:
    topics = ", ".join(_shown(topic) for topic in sorted({topic for topic, _ in proposal.leaves}))
    lines = [f"# {topics}: {proposal.messages} messages"]
    if proposal.tool:
        lines.append(f"# {_printable(proposal.tool)}")
    if shows_readings and proposal.kwh is not None:
        lines.append(f"# reads {proposal.kwh:,.3f} kWh: compare with the meter's display")
    lines += [f"# unsure: {_printable(doubt)}" for doubt in proposal.doubts]
    if proposal.form is not None:
        lines += ["[[feed.formats]]", *(f"{key} = {_toml(value)}" for key, value in proposal.form.items())]
    return [*lines, "[[feed.meters]]", *(f"{key} = {_toml(value)}" for key, value in proposal.meter.items())]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    return f'"{_escaped(value)}"' if isinstance(value, str) else repr(float(value))


def _escaped(text: str) -> str:
    """Return a text as the inside of a TOML string, with everything escaped that a terminal might obey."""
    return "".join(f"\\{one}" if one in '"\\' else one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


def _shown(topic: str) -> str:
    return _printable(topic if len(topic) <= _MAX_SHOWN else f"{topic[:_MAX_SHOWN]}…")
