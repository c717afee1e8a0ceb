"""Real agents under the virtual clock, with the keys of a vector run: `simulate --engine events`.

An experiment file is a description of a run: see sottovoce_lab.testbed.run_spec.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.data import DataSet
from sottovoce.errors import ConfigError, UsageError

from sottovoce_lab.simulator import Trace
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import run_spec

LARGEST_TRACE = 2000
"""Largest product of agents and cycles of a traced run, which records every state and message."""


def options(values: Mapping[str, Any], origin: str, typed: Collection[str] = ()) -> Options:
    """Return the options of a run, from dotted keys.

    Args:
        values: values by key.
        origin: name of the experiment, for errors.
        typed: keys that were given on the command line rather than by the experiment.

    Raises:
        ConfigError: if a value is impossible, or the experiment has an unknown key; the message names it.
        PrivacyError: if no ε holds and the values do not allow a run without ε.
        UsageError: if a key on the command line is unknown.
    """
    try:
        return run_spec(values, origin, typed).options()
    except UsageError as error:
        if str(error).startswith("--set"):
            raise
        raise ConfigError(f"{origin}: {str(error).replace('--', '')}") from error


def run(
    asked: Options, watcher: Watcher, traced: bool = False, data: DataSet | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a fleet under the virtual clock.

    Args:
        asked: options of the run.
        watcher: receiver of the progress.
        traced: whether to record every state, message and private computation; for small runs only.
        data: the data set that `asked.data` names, if it is loaded already.

    Returns:
        the report, and the trace if there is one.

    Raises:
        SottovoceError: if the fleet cannot run; the message names the remedy.
    """
    if traced and asked.agents * asked.cycles > LARGEST_TRACE:
        raise UsageError(f"--trace supports at most {LARGEST_TRACE} agents times cycles; choose fewer")
    trace = Trace() if traced else None
    report = memory.run(plan(asked, data), watcher, trace).document()
    return report, None if trace is None else trace.document()
