"""Tasks and revocation lists, signed with the fleet's key and stored in the fleet's directory."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sottovoce.errors import IdentityError
from sottovoce.fleet.files import exclusive
from sottovoce.fleet.signed_task import SignedTask, load_task, read_task, store_task
from sottovoce.net.wire.revocation import RevocationList
from sottovoce.node.gossip.revocation_store import load_revocation_list, store_revocation_list

from sottovoce_operator.fleet.ca import Fleet


def propose(directory: Path, fleet: Fleet, tables: dict[str, dict[str, Any]], details: dict[str, Any]) -> SignedTask:
    """Sign a task for the next epoch, and store it in the fleet directory.

    Args:
        directory: the fleet directory.
        fleet: the fleet, opened with its key.
        tables: see SignedTask.
        details: any of begins, ends, purpose and period; the period defaults to that of the previous task.

    Raises:
        IdentityError: if a file in the directory is corrupt or cannot be written, the period is earlier than that of
            the previous task, or the task is too large.
    """
    with exclusive(directory):
        previous = load_task(directory, fleet.authority)
        epoch, period = (1, 0) if previous is None else (previous.epoch + 1, previous.period)
        if (proposed_period := details.get("period", period)) < period:
            raise IdentityError(
                f"task.period: period {proposed_period} has passed, because the previous task is already in period "
                f"{period}; set period to at least {period}"
            )
        fields = {
            "fleet": fleet.name,
            "epoch": epoch,
            "issued": int(time.time()),
            "period": period,
            "keys": fleet.changes,
            **details,
        }
        task = SignedTask(tables=tables, **fields).sign(fleet.sign)
        read_task(task.encoding, "this task")
        store_task(directory, task, fleet.authority)
    return task


def revoke(directory: Path, fleet: Fleet, node_ids: Collection[str]) -> RevocationList:
    """Sign a list of these devices and all devices revoked earlier, and store it in the fleet's directory.

    Args:
        directory: the fleet's directory.
        fleet: the fleet, opened with its key.
        node_ids: ids of the additional devices to refuse.

    Raises:
        IdentityError: if the list in the directory is corrupt, or the new list cannot be written.
        MessageRefused: if an id is malformed, or there are too many ids.
    """
    with exclusive(directory):
        stored_list = load_revocation_list(directory, fleet.authority)
        previously_revoked = () if stored_list is None else stored_list.node_ids
        revoked = RevocationList(
            fleet=fleet.name,
            version=1 if stored_list is None else stored_list.version + 1,
            issued=int(time.time()),
            node_ids=tuple(sorted({*previously_revoked, *node_ids})),
            keys=fleet.changes,
        ).sign(fleet.sign)
        store_revocation_list(directory, revoked, fleet.authority)
    return revoked
