"""Real agents under the virtual clock, with the same keys as a vector run: `simulate --engine events`.

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
"""Most agents times cycles of a traced run, of which every state and message is recorded."""


def options(values: Mapping[str, Any], origin: str, typed: Collection[str] = ()) -> Options:
    """Options of a run, from dotted keys.

    Args:
        values: by key.
        origin: the experiment, to be named in an error.
        typed: keys that were given on the command line rather than by the experiment.

    Raises:
        ConfigError: if a value is impossible, or the experiment has an unknown key; the message names it.
        PrivacyError: if no ε holds and the values do not allow that.
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
        asked: the request.
        watcher: is shown how it goes.
        traced: whether to record every state, message and private computation; for small runs only.
        data: the data set that `asked.data` names, if it is loaded already.

    Returns:
        the report, and the trace if there is one.

    Raises:
        SottovoceError: if it cannot be run; the message names the remedy.
    """
    if traced and asked.agents * asked.cycles > LARGEST_TRACE:
        raise UsageError(f"--trace is for at most {LARGEST_TRACE} agents times cycles; take fewer")
    trace = Trace() if traced else None
    report = memory.run(plan(asked, data), watcher, trace).document()
    return report, None if trace is None else trace.document()
