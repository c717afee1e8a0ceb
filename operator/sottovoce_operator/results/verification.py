"""The check of a result file against a fleet's certificate, on any machine."""

from dataclasses import dataclass
from pathlib import Path

from sottovoce.fleet.authority import FleetAuthority
from sottovoce.fleet.files import read
from sottovoce.fleet.fleet_keys import read_anchors
from sottovoce.node.gossip.revocation_store import read_list
from sottovoce.node.opened_sum import LEAST_SIGNERS, Verification, read_result, verify_result

from sottovoce_operator.results.source import read_bytes
from sottovoce_operator.results.trusted_task import check_signed_task, check_task_file


@dataclass(frozen=True, slots=True)
class Verified:
    """A result file whose signatures are valid and sufficient.

    Attributes:
        signatures: whose signatures count.
        task: why the task in the file can be trusted; None if nothing but the file itself says what the task is.
    """

    signatures: Verification
    task: str | None


def verify_file(
    file: Path, fleet: Path, revoked: Path | None = None, task: Path | None = None, signers: int | None = None
) -> Verified:
    """Return what a result file's signatures prove.

    Args:
        file: the result file.
        fleet: the fleet's certificate, PEM.
        revoked: the fleet's revocation list; None to use the list in the file alone.
        task: a task or configuration that the result must belong to; None if the fleet's signature must suffice.
        signers: number of signatures to demand even if the task demands fewer; None for none, or for three if nothing
            but the file itself says what the task is.

    Raises:
        DataError: if the file cannot be read, or is not a result file.
        ConfigError: if the task cannot be read.
        IdentityError: if a signature or a list is not valid, too few members signed, or the task is another one.
    """
    document = read_result(read_bytes(file), file)
    anchors = read_anchors(read(fleet), fleet)
    authority = FleetAuthority(anchors.current, anchors.spare)
    lists = [] if not document.revoked else [read_list(document.revoked, authority, f"{file}: its revocation list")]
    if revoked is not None:
        lists.append(read_list(read(revoked), authority, revoked))
    for each in lists:
        if each.keys:
            authority = authority.with_changes(each.keys)
    node_ids = frozenset(node for each in lists for node in each.node_ids)
    trusted = None
    if document.fleet_task:
        check_signed_task(document.opened, document.fleet_task, authority)
        trusted = f"signed by the fleet, epoch {document.opened.epoch}"
    if task is not None:
        check_task_file(document.opened, task)
        trusted = f"as in {task}"
    least = LEAST_SIGNERS if trusted is None else 1
    return Verified(verify_result(document, authority, node_ids, least if signers is None else signers), trusted)
