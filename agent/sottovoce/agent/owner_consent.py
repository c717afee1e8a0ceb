"""The owner's consent, given outside the agent: on the command line or in Home Assistant."""

import contextlib
from pathlib import Path

from sottovoce.agent.consent import Said, save_consent
from sottovoce.agent.control import ask
from sottovoce.agent.fleet_tasks import load_task
from sottovoce.config import AgentConfig
from sottovoce.errors import NetworkError
from sottovoce.identity import load
from sottovoce.identity.identity import IDENTITY
from sottovoce.identity.signed_task import SignedTask


def consent_directory(config: AgentConfig) -> Path:
    """Return the directory that contains the ledger and the owner's consent."""
    return config.vault.directory or config.agent.state


def newest_task(config: AgentConfig) -> SignedTask | None:
    """Return the newest fleet task that the device knows, or None if it knows none.

    Raises:
        IdentityError: if the device's keys or the task cannot be read.
    """
    state = config.agent.state
    return load_task(state, load(state / IDENTITY, check_dates=False).authority)


def record_consent(config: AgentConfig, task: SignedTask, answer: Said) -> None:
    """Record the owner's answer durably; a running agent reads it at once.

    Raises:
        IdentityError: if the answer cannot be written.
        TaskRefused: if the owner has withdrawn from the task, which cannot be undone.
    """
    save_consent(consent_directory(config), task, answer)
    with contextlib.suppress(NetworkError):  # if the agent is not running, it reads the answer at its next start
        ask(config.agent.state, "look")
