"""The owner's answers to the fleet's tasks, one per task document, stored next to the ledger."""

import contextlib
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, field, json

from sottovoce.config import AgentConfig
from sottovoce.errors import IdentityError, NetworkError, TaskRefused
from sottovoce.fleet import load
from sottovoce.fleet.files import replace
from sottovoce.fleet.identity import IDENTITY
from sottovoce.fleet.signed_task import SignedTask
from sottovoce.node.control import ask
from sottovoce.node.fleet_tasks import load_task

NAME = "consent"
_MAX_EARLIER = 63  # earlier answers kept in addition to a new one
OwnerAnswer: TypeAlias = Literal["approved", "refused", "withdrawn"]


class _Consent(Struct, frozen=True, forbid_unknown_fields=True):
    """The owner's answer to the task document with this digest."""

    digest: str = field(name="document")
    answer: OwnerAnswer = field(name="said")


def read_consent(directory: Path, task: SignedTask) -> OwnerAnswer | None:
    """Return the owner's answer to this task, or None if there is no answer yet.

    Raises:
        IdentityError: if the answers file cannot be read.
    """
    digest = _digest(task)
    return next((consent.answer for consent in reversed(_load_consents(directory)) if consent.digest == digest), None)


def save_consent(directory: Path, task: SignedTask, answer: OwnerAnswer) -> None:
    """Store the owner's answer durably; after a withdrawal, no other answer to the task is accepted.

    Raises:
        IdentityError: if the answers file cannot be read or written.
        TaskRefused: if the owner has withdrawn from the task.
    """
    consents, digest = _load_consents(directory), _digest(task)
    if read_consent(directory, task) == "withdrawn":
        raise TaskRefused(f"epoch {task.epoch}: the owner has withdrawn from this task, and a withdrawal is permanent")
    other_consents = [consent for consent in consents if consent.digest != digest][-_MAX_EARLIER:]
    replace(directory / NAME, json.encode([*other_consents, _Consent(digest, answer)]) + b"\n")


def _load_consents(directory: Path) -> list[_Consent]:
    path = directory / NAME
    try:
        return json.decode(path.read_bytes(), type=list[_Consent])
    except FileNotFoundError:
        return []
    except (OSError, DecodeError, ValidationError) as error:
        raise IdentityError(f"{path}: cannot read the file ({error}); delete it and answer again") from error


def _digest(task: SignedTask) -> str:
    return sha256(task.encoding).hexdigest()


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
