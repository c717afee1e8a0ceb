"""Owner's consent, given outside the agent: on the command line, or in Home Assistant."""

import contextlib
from pathlib import Path

from sottovoce.agent.consent import Said, save_consent
from sottovoce.agent.control import ask
from sottovoce.agent.fleet_tasks import kept_task
from sottovoce.config import AgentConfig
from sottovoce.errors import NetworkError
from sottovoce.identity import load
from sottovoce.identity.identity import IDENTITY
from sottovoce.identity.signed_task import SignedTask


def consent_directory(config: AgentConfig) -> Path:
    """Return the directory of the ledger and of the owner's consent."""
    return config.vault.directory or config.agent.state


def newest_task(config: AgentConfig) -> SignedTask | None:
    """Return the fleet's newest task that the device knows; None if there is none.

    Raises:
        IdentityError: if the device's keys, or the task, cannot be read.
    """
    state = config.agent.state
    return kept_task(state, load(state / IDENTITY, dated=False).authority)


def record_consent(config: AgentConfig, task: SignedTask, said: Said) -> None:
    """Record the owner's answer, durably; a running agent reads it at once.

    Raises:
        IdentityError: if it cannot be written.
        TaskRefused: if its owner has withdrawn, which cannot be undone.
    """
    save_consent(consent_directory(config), task, said)
    with contextlib.suppress(NetworkError):  # the agent looks anyway once it is at work again
        ask(config.agent.state, "look")
