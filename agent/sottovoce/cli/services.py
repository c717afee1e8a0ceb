"""Long-running commands, which are started by systemd units, containers and testbeds.

These commands are recognised without the command-line parser, which would occupy 2 MiB of a device's memory.
"""

import faulthandler
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.limits import check_limits

if TYPE_CHECKING:
    from sottovoce.config import AgentConfig

_STANDARD_ERROR = 2


def run_agent(config: Path) -> int:
    """Run the agent described by a configuration file until it is stopped."""
    check_limits()  # before any import that needs them
    from sottovoce.node import endurance

    return _run_service(config, endurance.run)


def run_vault(config: Path) -> int:
    """Run the vault described by a configuration file until it is stopped."""
    check_limits()
    from sottovoce.node.vault_process import serve_vault

    return _run_service(config, lambda settings: serve_vault(settings, config))


def _run_service(config: Path, serve: "Callable[[AgentConfig], int]") -> int:
    from sottovoce.config import load
    from sottovoce.node.faults import report_faults
    from sottovoce.ops import log_to_stderr

    faulthandler.enable(_STANDARD_ERROR)  # the log shows where a library aborts if memory runs out
    with report_faults():
        settings = load(config)
        log_to_stderr(settings.agent.log_level, settings.agent.log_format)
        return serve(settings)


_SERVICES = {"agent": run_agent, "vault": run_vault}


def requested_service(arguments: list[str]) -> Callable[[], int] | None:
    """Return the service that `agent run --config FILE` or `vault run --config FILE` starts; None for any other."""
    match arguments:
        case [name, "run", "--config", file] if name in _SERVICES:
            return partial(_SERVICES[name], Path(file))
    return None
