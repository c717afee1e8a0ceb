"""The owner's consent, given outside the agent: on the command line or in Home Assistant."""

import contextlib
from pathlib import Path

from sottovoce.agent.consent import OwnerAnswer, save_consent
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


def load_newest_task(config: AgentConfig) -> SignedTask | None:
    """Return the newest fleet task that the device has stored, or None.

    Raises:
        IdentityError: if the device's keys or the task cannot be read.
    """
    state = config.agent.state
    return load_task(state, load(state / IDENTITY, check_dates=False).authority)


def record_answer(config: AgentConfig, task: SignedTask, answer: OwnerAnswer) -> None:
    """Store the owner's answer durably, and notify the agent if it is running.

    Raises:
        IdentityError: if the answer cannot be written.
        TaskRefused: if the owner has already withdrawn from the task; a withdrawal is permanent.
    """
    save_consent(consent_directory(config), task, answer)
    with contextlib.suppress(NetworkError):  # if the agent is not running, it reads the answer at its next start
        ask(config.agent.state, "look")
