"""Screen layout of `sottovoce top`, which adapts to the terminal's width."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sottovoce.cli.output import other_task_lines, sanitise

_BAR_WIDTH = 10
_MIN_WIDE_COLUMNS = 80  # columns; on wider terminals ids are shown in full
_STATES = {"learning": "green", "mixing": "cyan", "resting": "yellow"}
_OTHER_LINES = 7  # lines above and below the rows of a testbed
Device = dict[str, Any]


class Screen:
    """The terminal's alternate screen, which shows snapshots until `q` is pressed; then the terminal is restored."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._terminal_settings: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._keys is not None:
            self._terminal_settings = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)  # keys are read without Enter; Ctrl-C still interrupts
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if self._keys is not None and self._terminal_settings is not None:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._terminal_settings)

    def wait(self, seconds: float) -> bool:
        """Wait for the next update; return whether to quit because `q` was pressed."""
        if self._keys is None:
            time.sleep(seconds)
            return False
        pressed = os.read(self._keys, 64) if select.select([self._keys], [], [], seconds)[0] else b"-"
        return not pressed or b"q" in pressed.lower()  # an empty read means that the terminal is gone

    def show(self, snapshot: dict[str, Any]) -> None:
        """Draw a snapshot on the screen."""
        size = self._console.size
        self._live.update(render_snapshot(snapshot, size.width, size.height), refresh=True)


def print_snapshot(snapshot: dict[str, Any]) -> None:
    """Print one complete snapshot to standard output."""
    console = Console(highlight=False)
    console.print(render_snapshot(snapshot, console.size.width, None))


def render_snapshot(snapshot: dict[str, Any], width: int, height: int | None) -> RenderableType:
    """Return a snapshot as an object that Rich can print.

    Args:
        snapshot: a `sottovoce.top/1` document.
        width: terminal width in columns.
        height: terminal height in lines; None for no limit.
    """
    devices = snapshot["devices"]
    if snapshot["testbed"] is None:
        return Group(*(_device_table(device, snapshot["at"], width) for device in devices))
    rows = len(devices) if height is None else max(1, height - _OTHER_LINES)
    table, omitted_names = _testbed_table(devices[:rows], width)
    parts: list[RenderableType] = [_heading(snapshot), table]
    if omitted_names:
        parts.append(Text(f"not shown in {width} columns: {', '.join(omitted_names)}", style="dim"))
    if hidden := devices[rows:]:
        away = sum(device["away"] for device in hidden)
        parts.append(Text(f"… and {len(hidden)} more, {away} of them away", style="dim"))
    return Group(*parts)


def _heading(snapshot: dict[str, Any]) -> Text:
    devices, testbed = snapshot["devices"], snapshot["testbed"]
    running = [device for device in devices if not device["away"]]
    parts = [f"testbed {testbed['directory']}", f"{len(running)} of {len(devices)} up"]
    measurement = testbed["measured"]
    if measurement is not None:
        parts += [
            f"{measurement['learner']} on {measurement['data']}",
            f"cycle {measurement['cycle']} of {measurement['cycles']}",
        ]
        parts.append(_format_quality(measurement))
    return Text(" · ".join(parts), style="bold")


def _format_quality(measurement: dict[str, Any]) -> str:
    """Return the harness's measurement on held-out records as text."""
    if measurement.get("accuracy_mean") is not None:
        low, high = measurement["accuracy_min"], measurement["accuracy_max"]
        return f"public accuracy {measurement['accuracy_mean']:.3f} ({low:.3f} to {high:.3f})"
    name = "mae_mean" if measurement.get("mae_persistence") is not None else "rmse_mean"
    return f"public error {measurement[name]:.4g}"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column in the testbed table, with its heading, width and cell function."""

    name: str
    width: int
    cell: Callable[[Device], Text]
    left: bool = False


def _testbed_table(devices: list[Device], width: int) -> tuple[Table, list[str]]:
    """Return a table with one row per device, and the names of the columns that do not fit."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    used_width = 0
    visible_columns: list[_Column] = []
    omitted_names: list[str] = []
    name_width = max(len("agent"), *(len(device["name"]) for device in devices))
    for column in (_Column("agent", name_width, lambda device: Text(device["name"]), left=True), *_COLUMNS):
        if used_width + column.width + 1 > width and visible_columns:
            omitted_names.append(column.name)
            continue
        used_width += column.width + 1
        visible_columns.append(column)
    for column in visible_columns:
        max_width = column.width if column is not visible_columns[-1] else column.width + width - used_width
        justify: Literal["left", "right"] = "left" if column.left else "right"
        table.add_column(column.name, justify=justify, no_wrap=True, overflow="ellipsis", max_width=max_width)
    for device in devices:
        table.add_row(*(column.cell(device) for column in visible_columns))
    return table, omitted_names


def _waiting_reason(device: Device) -> str:
    """Return why a device is waiting; a timer is reported only if there is no other reason."""
    waits = sorted(device["waiting"], key=lambda wait: wait["name"].startswith("timer:"))
    if not waits:
        return "nothing"
    wait = waits[0]
    return f"{wait['reason']}, for {wait['since_s']:.0f} s"


def _budget_bar(device: Device) -> Text:
    """Return the ε spent as a bar with numbers, in a neutral colour because spending the budget is normal."""
    spent, total = device["spent_epsilon"], device["epsilon"]
    if spent is None or total is None:
        return Text("no ε is promised", style="yellow")
    filled = round(_BAR_WIDTH * min(1.0, spent / total))
    return Text.assemble(("█" * filled, "blue"), ("░" * (_BAR_WIDTH - filled), "dim"), f" {spent:.2f}/{total:g}")


def _state_text(device: Device) -> Text:
    return (
        Text("away", style="red") if device["away"] else Text(device["state"], style=_STATES.get(device["state"], ""))
    )


def _peer_summary(device: Device) -> Text:
    failing = sum(peer["failing"] for peer in device["peers"])
    return Text(f"{len(device['peers'])}{f' ({failing} failing)' if failing else ''}", style="red" if failing else "")


def _format_rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _format_kib(value: float | None) -> str:
    return "–" if value is None else f"{value / 1024:.1f}"


def _blank_when_away(cell: Callable[[Device], Text | str]) -> Callable[[Device], Text]:
    """Wrap a cell function so that the cell is empty if the device is away."""

    def render(device: Device) -> Text:
        content = "" if device["away"] else cell(device)
        return content if isinstance(content, Text) else Text(sanitise(content))

    return render


_COLUMNS = (  # on a narrow terminal, the first columns take precedence
    _Column("state", 8, _state_text, left=True),
    _Column("cycle", 7, _blank_when_away(lambda device: f"{device['cycle']}")),
    _Column("ε spent", _BAR_WIDTH + 8, _blank_when_away(_budget_bar), left=True),
    _Column("peers", 13, _blank_when_away(_peer_summary)),
    _Column("sent/s", 7, _blank_when_away(lambda device: _format_rate(device["sent_per_s"]))),
    _Column("recv/s", 7, _blank_when_away(lambda device: _format_rate(device["received_per_s"]))),
    _Column("KiB/s", 7, _blank_when_away(lambda device: _format_kib(device["wire_bytes_per_s"]))),
    _Column("MiB", 5, _blank_when_away(lambda device: f"{device['rss_mib']:.0f}")),
    _Column("waits for", 20, _blank_when_away(_waiting_reason), left=True),
)


def _device_table(device: Device, timestamp: str, width: int) -> RenderableType:
    """Return a table that describes one device, with its peers below."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = _away_rows(device) if device["away"] else [*_device_rows(device), *_peer_rows(device, width)]
    rest = "" if device["away"] or device["resting_until"] is None else f" until {device['resting_until']}"
    name = Text.assemble(sanitise(device["name"]), "  ", _state_text(device), rest)
    for heading, content in [("device", name), *rows, ("at", timestamp)]:
        table.add_row(heading, content if isinstance(content, Text) else Text(sanitise(content)))
    return table


def _away_rows(device: Device) -> list[tuple[str, Text | str]]:
    return [("", f"no agent responds in {device['state_directory']}; it was stopped, or has not been started")]


def _device_rows(device: Device) -> Iterator[tuple[str, Text | str]]:
    step_limit = "" if device["steps"] is None else f" of {device['steps']}"
    yield "id", f"{device['id']} of fleet {device['fleet']}"
    yield "cycle", f"{device['cycle']}, private step {device['steps_done']}{step_limit} ({device['learner']})"
    yield "ε spent", _budget_bar(device)
    if device["left_epsilon"] is not None:
        budget = f"{device['left_epsilon']:.3f} left at δ = {device['delta']:g}, {device['releases']} releases"
        yield "", f"{budget}; {device['status']}, {device['unit']} level"
    sent_per_s, received_per_s = _format_rate(device["sent_per_s"]), _format_rate(device["received_per_s"])
    yield (
        "traffic",
        f"{sent_per_s} messages sent and {received_per_s} received per second, "
        f"{_format_kib(device['wire_bytes_per_s'])} KiB/s out; {device['messages']} and {device['received']} in total",
    )
    yield "memory", f"{device['rss_mib']:.1f} MiB, {device['cpu_s']:.1f} s of processor time"
    yield "waits for", _waiting_reason(device)
    if device["trouble"]:
        yield "trouble", Text(sanitise(device["trouble"]), style="red")


def _peer_rows(device: Device, width: int) -> Iterator[tuple[str, Text | str]]:
    """Yield the peer count, a line for each other task, and a line for each peer."""
    yield "peers", _peer_summary(device)
    for line in other_task_lines(device["other_tasks"]):
        yield "apart", Text(sanitise(line), style="red")
    for peer in device["peers"]:
        name = peer["id"] if width > _MIN_WIDE_COLUMNS else f"{peer['id'][:8]}…"
        status = ("not reached", "red") if peer["failing"] else ("reached", "green")
        yield "", Text.assemble(f"{name} at {sanitise(peer['address'])}  ", status)
