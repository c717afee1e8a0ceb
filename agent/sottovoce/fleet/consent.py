"""The owner's answers to the fleet's tasks, one per task document, stored next to the ledger."""

from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, field, json

from sottovoce.errors import IdentityError, TaskRefused
from sottovoce.fleet.files import exclusive, replace
from sottovoce.fleet.signed_task import SignedTask

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
    digest = _digest(task)
    with exclusive(directory):
        consents = _load_consents(directory)
        if read_consent(directory, task) == "withdrawn":
            raise TaskRefused(
                f"epoch {task.epoch}: the owner has withdrawn from this task, and a withdrawal is permanent"
            )
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
