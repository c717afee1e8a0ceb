"""Opened sums of a fleet whose members sign them, for tests of results."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce.fleet import Identity
from sottovoce.node.opened_sum import Confirmation, OpenedSum, ResultFile, SignedSum
from sottovoce.task import Task, Value
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.ca import enrol

SETTINGS: dict[str, Value] = {
    "form": 1,
    "task.name": "street",
    "task.epoch": 2,
    "task.epsilon": 1.0,
    "data.columns": [],
    "data.features": 4,
    "data.windows": [20454, 20818],
    "learner.name": "average",
    "learner.clip": 2.0,
    "learner.harmonics": None,
    "learner.prior": [],
    "learner.shape_clip": None,
    "privacy.unit": "device",
    "privacy.neighbouring": "add-remove",
    "privacy.noise": "cell",
    "privacy.cell.least": 4,
    "privacy.cell.most": 8,
    "privacy.cell.colluding": 1,
    "privacy.cell.threshold": 0.7,
    "privacy.cell.spare": 0,
}
DAY = int(time.time() // 86_400)


def new_members(fleet: Fleet, directory: Path, count: int) -> list[Identity]:
    """Return devices that joined a fleet, ordered by node id."""
    members = [enrol(fleet, directory / f"member-{i}") for i in range(count)]
    return sorted(members, key=lambda member: member.node_id)


def opened_sum(members: Sequence[Identity], **changes: object) -> OpenedSum:
    """Return the sum of these members, with their fleet's task."""
    fields: dict[str, Any] = {
        "fleet": members[0].fleet,
        "task": Task(SETTINGS).canonical.decode(),
        "slot": 0,
        "round": "ab" * 32,
        "owners": tuple(member.node_id for member in members),
        "survivors": tuple(range(len(members))),
        "exponent": -10,
        "total": (1024, 2048, -512, 4096),
        "share": 300,
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    return OpenedSum(**{**fields, **changes})


def confirm(member: Identity, opened: OpenedSum, day: int = DAY) -> Confirmation:
    """Return a member's signature on a sum."""
    unsigned = SignedSum(member.node_id, day, opened.digest, member.certificate_der)
    message = unsigned.signed_bytes(member.fleet, opened.read_task().digest)
    return replace(unsigned, signature=member.sign(message)).confirmation


def result_file(members: Sequence[Identity], signers: Sequence[Identity], opened: OpenedSum) -> ResultFile:
    """Return a sum's file with the signatures of some of its members."""
    return ResultFile(opened=opened, confirmations=tuple(confirm(member, opened) for member in signers))
