"""Simulate real agents on the virtual clock, with the same keys as a vector run: `simulate --engine events`.

An experiment file is a run description; see sottovoce_lab.testbed.run_spec.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.data import DataSet
from sottovoce.errors import ConfigError, UsageError

from sottovoce_lab.simulator import Trace
from sottovoce_lab.simulator.trace import check_traceable
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import build_run_spec


def build_options(values: Mapping[str, Any], origin: str, typed: Collection[str] = ()) -> Options:
    """Build the options for a run from dotted keys.

    Args:
        values: the values, by dotted key.
        origin: the experiment name, for error messages.
        typed: the keys that were set on the command line rather than by the experiment.

    Raises:
        ConfigError: if a value is invalid, or the experiment contains an unknown key; the message names the key.
        PrivacyError: if no ε holds and the values do not allow a run without ε.
        UsageError: if a key set on the command line is unknown.
    """
    try:
        return build_run_spec(values, origin, typed).options()
    except UsageError as error:
        if str(error).startswith("--set"):
            raise
        raise ConfigError(f"{origin}: {str(error).replace('--', '')}") from error


def run(
    options: Options, watcher: Watcher, traced: bool = False, data: DataSet | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Simulate a fleet on the virtual clock.

    Args:
        options: the options for the run.
        watcher: receives progress updates.
        traced: whether to record every state, message and private computation; only for small runs.
        data: the data set in `options.data`, if it is already loaded.

    Returns:
        The report, and the trace if one was requested.

    Raises:
        SottovoceError: if the fleet cannot run; the message suggests a remedy.
    """
    planned = plan(options, data)
    if traced:
        check_traceable(options.agents, planned.options.cycles)
    trace = Trace() if traced else None
    report = memory.run(planned, watcher, trace).document()
    return report, None if trace is None else trace.document()
