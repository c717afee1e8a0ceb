"""Console output for a run: a live table, a progress bar and a summary."""

import time
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from sottovoce.privacy.accounting.gaussian import format_rounded_up
from sottovoce.privacy.api import Status
from typing_extensions import override

from sottovoce_lab.pages.comparison import MEASURES, compare, format_measure, main_measure
from sottovoce_lab.testbed.measure import Errors, PredictionErrors, Quality
from sottovoce_lab.testbed.progress import Moment, Watcher

_ROWS = 12
_CYCLES = "cycle"
_PATIENCE_SECONDS = 4.0  # between two progress lines in a phase, so that no silence exceeds five seconds
_MIB = 2**20


def describe_status(privacy: Mapping[str, Any]) -> str:
    """Return a privacy statement's status, with the reason if it is not proved."""
    status = str(privacy["status"])
    return f"{status}: {privacy['reason']}" if status == Status.NOT_PROVED else status


class ConsoleWatcher(Watcher):
    """A watcher that shows a run as a live table and a progress bar, or as occasional lines if there is no terminal.

    Args:
        quiet: whether to print to standard error, so that standard output contains only the JSON report.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=quiet, highlight=False)
        self._moments: list[Moment] = []
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=self._console)
        self._phases: dict[str, TaskID] = {}
        self._last_print_time = time.monotonic()
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._moments.clear()  # on the screen already; a later phase does not show them again

    @override
    def note(self, text: str) -> None:
        self._console.print(text)

    @override
    def advance(self, phase: str, done: int, total: int) -> None:
        if phase not in self._phases:
            for previous in self._phases.values():
                self._progress.update(previous, visible=False)
            self._phases[phase] = self._progress.add_task(phase, total=total)
        self._progress.update(self._phases[phase], completed=done)
        if self._live is not None:
            self._draw()
        elif phase != _CYCLES and time.monotonic() - self._last_print_time > _PATIENCE_SECONDS:
            self._last_print_time = time.monotonic()
            self._console.print(f"{done} of {total} {phase}")

    @override
    def show_moment(self, moment: Moment) -> None:
        self._moments.append(moment)
        self.advance(_CYCLES, min(moment.cycle, moment.cycles), moment.cycles)
        if self._live is None and _is_worth_a_line(moment):
            self._console.print("  ".join(f"{name} {value}" for name, value in _cells(moment).items()), soft_wrap=True)

    def _draw(self) -> None:
        table = [self._table()] if self._moments else []
        if self._live is not None:
            self._live.update(Group(*table, self._progress), refresh=True)

    def print_summary(self, report: dict[str, Any]) -> None:
        """Print a run's summary."""
        run, privacy, final, traffic = report["run"], report["privacy"], report["final"], report["traffic"]
        alive = sum(agent["alive"] for agent in report["agents"])
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        table.add_row(
            "fleet",
            f"{run['agents']} agents ({alive} alive at the end), {run['learner']}, {run['data']}, {run['topology']}",
        )
        if (steps := run.get("steps")) is not None:
            table.add_row("steps", steps)
        table.add_row(*_result(final))
        if (records := run.get("records")) is not None:
            table.add_row("records", records)
        if (baselines := report.get("baselines")) is not None:
            table.add_row(
                "compare",
                f"{baselines['own_data']:.3f} for a device alone, with its own records and no noise; "
                f"{baselines['majority_class']:.3f} for always predicting the most common class",
            )
        if privacy["epsilon"] is None:
            table.add_row("privacy", f"none: {privacy['reason']}")
        elif privacy["spent_epsilon_max"] is None:
            table.add_row("privacy", f"ε = {privacy['epsilon']:g} is claimed; charged as infinite: {privacy['reason']}")
        else:
            spent = format_rounded_up(privacy["spent_epsilon_max"])
            table.add_row(
                "privacy",
                f"ε = {spent} spent of {privacy['epsilon']:g} at δ = {privacy['delta']:g}: "
                f"{describe_status(privacy)}, {privacy['unit']} level, {privacy['neighbouring']}",
            )
            table.add_row("", privacy["mechanism"])
            if run["transport"] != "memory":
                verdict = "all agree with their agents" if privacy["ledgers_agree"] else "NOT all agree: see below"
                table.add_row("ledgers", f"{run['agents']} read from disk after the run: {verdict}")
            table.add_row("adversary", privacy["threat_model"])
        table.add_row(
            "traffic",
            f"{traffic['messages']} messages, {traffic['wire_bytes'] / _MIB:.1f} MiB, "
            f"{traffic['wire_bytes_per_agent_cycle'] / 1024:.1f} KiB per agent per cycle",
        )
        resources = report["resources"]
        if resources["rss_mib_median"] is not None:
            table.add_row(
                "agents",
                f"{resources['rss_mib_median']:.0f} MiB of memory ({resources['rss_mib_max']:.0f} at most), "
                f"{resources['cpu_s_per_agent']:.1f} s of CPU time, ready in {resources['ready_s_median']:.1f} s",
            )
        if run.get("lifted_quotas"):
            table.add_row("quotas", f"lifted for this run: {', '.join(run['lifted_quotas'])}; devices have them")
        table.add_row("time", f"{run['wall_s']:.0f} s")
        for warning in report["warnings"]:
            table.add_row("warning", warning)
        self._console.print()
        self._console.print(table)

    def compare(self, report: dict[str, Any]) -> None:
        """Print the run together with simple rules and simulations on the same data, from the worst to the best."""
        measure = main_measure(report["final"])
        table = Table(box=None, pad_edge=False)
        table.add_column(MEASURES[measure], no_wrap=True)
        table.add_column("by", no_wrap=True)
        table.add_column("a record is protected against")
        for row in compare(report):
            half = "" if row.half_interval is None else f"± {format_measure(row.half_interval, measure)}"
            result = f"{format_measure(row.value, measure)} {half}"
            table.add_row(result, row.label, row.promise, style="bold" if row.is_run else None)
        self._console.print()
        self._console.print(table)
        if report["comparisons"]:
            seeds = report["comparisons"][0]["seeds"]
            self._console.print(f"Rows with ±: simulations on the same data, means of {seeds} seeds, 95% intervals.")

    def _table(self) -> Table:
        table = Table()
        cells = [_cells(moment) for moment in self._moments[-_ROWS:]]
        for name in cells[-1]:
            table.add_column(name, justify="right")
        for row in cells:
            table.add_row(*row.values())
        return table


def _result(final: dict[str, Any]) -> tuple[str, str]:
    if "mae_least_squares" in final:
        return "error", _prediction(final)
    if "rmse_mean" in final:
        return "error", (
            f"{final['rmse_mean']:.4g} root mean square, {final['rmse_max']:.4g} worst agent; noise alone "
            f"{final['rmse_theory']:.4g}, clipping alone {final['rmse_clip']:.4g}, without any release "
            f"{final['rmse_prior']:.4g}; the typical size of the mean's numbers is {final['mean_size']:.4g}"
        )
    return "accuracy", (
        f"{final['accuracy_mean']:.3f} mean, {final['accuracy_min']:.3f} worst, {final['accuracy_max']:.3f} best, "
        "on records that no agent holds"
    )


def _prediction(final: dict[str, Any]) -> str:
    unit = "" if final["unit"] is None else f" {final['unit']}"
    baselines = {
        "persistence": final["mae_persistence"],
        "same time yesterday": final["mae_same_time_yesterday"],
        "a device alone": final["mae_own_data"],
        "exact fit": final["mae_least_squares"],
    }
    baseline_text = ", ".join(f"{name} {value:.4g}" for name, value in baselines.items() if value is not None)
    return f"{final['mae_mean']:.4g}{unit} mean absolute, {final['mae_max']:.4g} worst agent; {baseline_text}"


def _quality(measures: Quality) -> dict[str, str]:
    if isinstance(measures, PredictionErrors):
        baseline = measures.mae_persistence
        baseline_cells = {} if baseline is None else {"persistence": f"{baseline:.4g}"}
        return {"mae": f"{measures.mae_mean:.4g}", "worst": f"{measures.mae_max:.4g}", **baseline_cells}
    if isinstance(measures, Errors):
        return {"error": f"{measures.rmse_mean:.4g}", "worst": f"{measures.rmse_max:.4g}"}
    return {
        "accuracy": f"{measures.accuracy_mean:.3f}",
        "least": f"{measures.accuracy_min:.3f}",
        "best": f"{measures.accuracy_max:.3f}",
    }


def _is_worth_a_line(moment: Moment) -> bool:
    if moment.cycle >= moment.cycles:
        return moment.cycle == moment.cycles
    return moment.cycle % max(1, moment.cycles // _ROWS) == 0


def _cells(moment: Moment) -> dict[str, str]:
    spent = "-" if moment.epsilon_spent is None else f"{moment.epsilon_spent:.3f}"
    return {
        "cycle": f"{min(moment.cycle, moment.cycles)} of {moment.cycles}",
        "time": f"{moment.elapsed_s:.0f} s",
        "alive": f"{moment.alive}",
        **_quality(moment.measures),
        "ε spent": spent,
        "messages": f"{moment.messages}",
        "MiB": f"{moment.wire_bytes / _MIB:.1f}",
    }
