"""Long-running commands, which are started by systemd units, containers and testbeds.

These commands are recognised without the command-line parser, which would occupy 2 MiB of a device's memory.
"""

import faulthandler
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.config import AgentConfig

_STANDARD_ERROR = 2


def agent(config: Path) -> int:
    """Run the agent described by a configuration file until it is stopped."""
    from sottovoce.agent import endurance

    return _run_service(config, endurance.run)


def vault(config: Path) -> int:
    """Run the vault of a configuration file, which serves records and the ledger to the agent, until it is stopped."""
    from sottovoce.agent.vault_process import serve_vault

    return _run_service(config, lambda settings: serve_vault(settings, config))


def _run_service(config: Path, keep: "Callable[[AgentConfig], int]") -> int:
    from sottovoce.agent.faults import report_faults
    from sottovoce.config import load
    from sottovoce.observe import log_to_stderr

    faulthandler.enable(_STANDARD_ERROR)  # the log shows where a library aborts if memory runs out
    with report_faults():
        settings = load(config)
        log_to_stderr(settings.agent.log_level, settings.agent.log_format)
        return keep(settings)


_SERVICES = {"agent": agent, "vault": vault}


def requested_service(words: list[str]) -> Callable[[], int] | None:
    """Return the service of `agent run --config FILE` or `vault run --config FILE`; None for any other words."""
    match words:
        case [name, "run", "--config", file] if name in _SERVICES:
            return partial(_SERVICES[name], Path(file))
    return None
