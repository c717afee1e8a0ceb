"""What a device's owner says to a task of the fleet's: kept beside the ledger, for one document and no other."""

from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json

from sottovoce.errors import IdentityError
from sottovoce.identity.files import replace
from sottovoce.identity.signed_task import SignedTask

NAME = "consent"
Said: TypeAlias = Literal["approved", "refused", "withdrawn"]


class _Consent(Struct, frozen=True, forbid_unknown_fields=True):
    """To the document of this digest."""

    epoch: int
    document: str
    said: Said


def consent_in(directory: Path, task: SignedTask) -> Said | None:
    """What was said to this task; None while nothing was.

    Raises:
        IdentityError: it cannot be read.
    """
    path = directory / NAME
    try:
        consent = json.decode(path.read_bytes(), type=_Consent)
    except FileNotFoundError:
        return None
    except (OSError, DecodeError, ValidationError) as error:
        raise IdentityError(f"{path}: cannot be read ({error}); remove it, and say again what you want") from error
    return consent.said if consent.document == _digest(task) else None


def consent(directory: Path, task: SignedTask, said: Said) -> None:
    """Say it, durably. What was said to other tasks before counts no more.

    Raises:
        IdentityError: it cannot be written.
    """
    replace(directory / NAME, json.encode(_Consent(task.epoch, _digest(task), said)) + b"\n")


def _digest(task: SignedTask) -> str:
    return sha256(task.encoded).hexdigest()
