"""Session with a device's vault, in this process or behind a socket, under the fleet task that the vault activated."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.algorithms.family import Family, required_budget
from sottovoce.config import AgentConfig, config_for_task
from sottovoce.errors import LedgerError, PrivacyError, SottovoceError, TaskRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.fleet.signed_task import read_task
from sottovoce.fleet.trust import CurrentAuthority
from sottovoce.node.fleet_tasks import load_task
from sottovoce.node.gossip.revocation_store import StoredRevocations
from sottovoce.node.local_vault import LEDGER, make_vault
from sottovoce.node.own_task import build_task
from sottovoce.node.preconditions import check_cell, runnable_family
from sottovoce.node.provenance import MemberVerifier
from sottovoce.node.task_activator import TaskActivator, active_configuration, make_closed_reason
from sottovoce.node.wait_status import Waits
from sottovoce.privacy.vault import Ledger, VaultInterface
from sottovoce.task import Task


@dataclass(frozen=True, slots=True)
class VaultSession:
    """This device's session with a vault.

    Attributes:
        vault: the vault.
        config: configuration of the device under the activated task.
        family: family of the learner.
        task: the task that peers must share in order to mix.
        epoch: epoch of the fleet task; 0 for none.
        activate_task: activates another task; see sottovoce.node.task_activator.
    """

    vault: VaultInterface
    config: AgentConfig
    family: Family
    task: Task
    epoch: int
    activate_task: Callable[[bytes], None]


def open_local_vault(config: AgentConfig, trust: Trust, clock: Callable[[], float]) -> VaultSession:
    """Open a session with the vault in this process.

    If the activated task cannot begin, for example because the records do not fit it, the next task replaces it,
    provided that the next task can begin.
    """
    state, identity, authority = config.agent.state, trust.identity, CurrentAuthority(trust)
    ledger = Ledger.open(state / LEDGER, identity.node_id, required_budget(config))
    activator = TaskActivator(config, ledger, state, lambda: authority, clock)
    try:
        try:
            return _open_under_task(config, ledger, activator)
        except SottovoceError:
            if ledger.mandate is None or not _activate_next_task(config, identity, activator):
                raise
            return _open_under_task(config, ledger, activator)
    except BaseException:
        ledger.close()
        raise


def _open_under_task(own_config: AgentConfig, ledger: Ledger, activator: TaskActivator) -> VaultSession:
    config, mandate, clock = active_configuration(own_config, ledger), ledger.mandate, activator.clock
    check_cell(config)
    family = runnable_family(config)
    closing_reason = make_closed_reason(own_config, ledger, activator.directory, clock)
    task = build_task(config)
    verify_member = None
    if config.cell is not None:
        authority = activator.authority()
        verify_member = MemberVerifier(
            authority, task.digest, StoredRevocations(activator.directory, authority), clock
        ).verify
    vault = make_vault(config, family, ledger, clock=clock, closing_reason=closing_reason, verify_member=verify_member)

    def activate_task(document: bytes) -> None:
        _check_runnable(own_config, document)
        vault.end(lambda: activator(document), "another task has begun")

    return VaultSession(vault, config, family, task, 0 if mandate is None else mandate.epoch, activate_task)


def _activate_next_task(own_config: AgentConfig, identity: Identity, activator: TaskActivator) -> bool:
    """Activate a newer task from the state directory, if there is one, and return whether it was activated."""
    try:
        task = load_task(own_config.agent.state, identity.authority)
        if task is None:
            return False
        _check_runnable(own_config, task.encoding)
        activator(task.encoding)
    except SottovoceError:
        return False
    return True


def open_remote_vault(config: AgentConfig, identity: Identity, waits: Waits) -> VaultSession:
    """Open a session with a separate vault."""
    from sottovoce.privacy.rpc.remote import (
        RemoteVault,  # imported late: saves memory in an agent without a separate vault
    )

    path, socket = config.agent.state / LEDGER, config.vault.socket or Path()
    if path.exists():
        raise LedgerError(
            f"{path}: the agent has its own ledger although vault.socket is set, but there must be only one "
            "ledger. If this ledger belongs to this device, move it into vault.directory, together with the "
            "adjacent files of the same name; see docs/explanation/separate-vault.md"
        )
    family, budget = runnable_family(config), required_budget(config)
    vault = RemoteVault(socket, owner=identity.node_id, budget=budget, patience=config.vault.patience, waits=waits)
    try:
        own_config, epoch = config, 0
        if vault.task:
            task = read_task(vault.task, socket)
            config, epoch = config_for_task(own_config, task.tables, task.epoch, vault.statement.epsilon), task.epoch
            family = runnable_family(config)
        check_cell(config)
        if vault.follows != config.follows:
            vault_mode = "follows a feed" if vault.follows else "does not follow a feed"
            raise PrivacyError(
                f"{socket}: the vault {vault_mode}, but the agent's configuration differs; use the same [data] and "
                "[privacy] tables for both, and restart the vault"
            )

        def activate_task(document: bytes) -> None:
            _check_runnable(own_config, document)
            vault.take_up(document)

        return VaultSession(vault, config, family, build_task(config, vault.ranges), epoch, activate_task)
    except BaseException:
        vault.close()
        raise


def _check_runnable(own_config: AgentConfig, document: bytes) -> None:
    """Check that this agent can run under a task before its vault activates the task for good.

    Raises:
        TaskRefused: if this agent cannot run under the task.
    """
    task = read_task(document, "this document")
    try:
        config = config_for_task(own_config, task.tables, task.epoch)
        check_cell(config)
        runnable_family(config)
        build_task(config)
    except SottovoceError as error:
        raise TaskRefused(f"this device cannot carry out the task: {error}") from error
