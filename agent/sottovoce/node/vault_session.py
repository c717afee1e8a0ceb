"""Session with a device's vault, in this process or behind a socket, under the fleet task that the vault activated.

Queries are sent one at a time, and only while peers permit releases and disk writes are allowed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import Family, required_budget
from sottovoce.config import AgentConfig, config_for_task
from sottovoce.data import Table, parse, width
from sottovoce.data.spec import unproved_reason
from sottovoce.errors import ConfigError, DataError, LedgerError, PrivacyError, SottovoceError, TaskRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.fleet.signed_task import load_task, read_task
from sottovoce.fleet.trust import CurrentAuthority
from sottovoce.net.wire import MAX_PARAMETERS
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.revocation_store import StoredRevocations
from sottovoce.node.local_vault import LEDGER, check_private_half, make_vault
from sottovoce.node.own_task import build_task
from sottovoce.node.provenance import MemberVerifier
from sottovoce.node.task_activator import TaskActivator, active_configuration, make_closed_reason
from sottovoce.node.waits import Waits, WriteThrottle
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, Query, Refused
from sottovoce.privacy.vault import Ledger, VaultInterface
from sottovoce.task import Task

_log = logging.getLogger(__name__)

_WAIT = "vault"
_ANSWER_SECONDS = 600.0
_RETRY_SECONDS = 60.0


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


def open_local_vault(
    config: AgentConfig, trust: Trust, clock: Callable[[], float], table: Table | None = None
) -> VaultSession:
    """Open a session with the vault in this process; see make_vault for the table.

    If the activated task cannot begin, for example because the records do not fit it, the next task replaces it,
    provided that the next task can begin.
    """
    state, identity, authority = config.agent.state, trust.identity, CurrentAuthority(trust)
    ledger = Ledger.open(state / LEDGER, identity.node_id, required_budget(config))
    activator = TaskActivator(config, ledger, state, lambda: authority, clock)
    try:
        try:
            return _open_under_task(config, ledger, activator, table)
        except SottovoceError:
            if ledger.mandate is None or not _activate_next_task(config, identity, activator):
                raise
            return _open_under_task(config, ledger, activator, table)
    except BaseException:
        ledger.close()
        raise


def _open_under_task(
    own_config: AgentConfig, ledger: Ledger, activator: TaskActivator, table: Table | None
) -> VaultSession:
    config, mandate, clock = active_configuration(own_config, ledger), ledger.mandate, activator.clock
    closing_reason = make_closed_reason(
        config.vault, ledger, activator.directory, clock, algorithm=config.learner.name, cell=config.cell
    )
    family, task = _build_parts(config)
    verify_member = None
    if config.cell is not None:
        authority = activator.authority()
        verify_member = MemberVerifier(
            authority, task.digest, StoredRevocations(activator.directory, authority), clock
        ).verify
    vault = make_vault(
        config, family, ledger, clock=clock, closing_reason=closing_reason, verify_member=verify_member, table=table
    )

    def activate_task(document: bytes) -> None:
        _check_runnable(own_config, document)
        vault.end(lambda: activator(document), "another task has begun")

    return VaultSession(vault, config, family, task, 0 if mandate is None else mandate.epoch, activate_task)


def _build_parts(config: AgentConfig) -> tuple[Family, Task]:
    """Return the learner's parts and the task document, after checking that both can run on this device."""
    check_cell(config)
    return runnable_family(config), build_task(config)


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
        _build_parts(config)
    except SottovoceError as error:
        raise TaskRefused(f"this device cannot carry out the task: {error}") from error


class VaultQueries:
    """Queue of queries to the vault; the ledger's new head is signed before an answer is used.

    Args:
        vault: vault to query.
        head_gossip: grants permission to release, and sends new heads to peers.
        waits: record of the waits in progress.
        throttle: blocks while the ledger's write allowance, which limits disk wear, is used up.
        is_leaving: returns whether the device is leaving, in which case no further query is sent.

    Attributes:
        spending: the ledger's spending after the last answer.
    """

    def __init__(
        self,
        vault: VaultInterface,
        head_gossip: LedgerHeadGossip,
        waits: Waits,
        throttle: WriteThrottle,
        is_leaving: Callable[[], bool],
    ) -> None:
        self.spending = vault.spending()
        self._vault = vault
        self._head_gossip = head_gossip
        self._waits = waits
        self._throttle = throttle
        self._is_leaving = is_leaving
        self._lock = asyncio.Lock()

    async def ask(self, query: Query | CellQuery) -> Answer | CellAnswer | None:
        """Return the answer, or None if the agent stops or leaves first; the query is repeated at the next startup.

        If the task has ended, or the owner does not take part in it, the query is repeated periodically.

        Raises:
            PrivacyError: if the terms differ from the vault's.
            LedgerError: see LedgerHeadGossip.wait_for_permission.
            TimeoutError: if the vault does not answer in time.
        """
        while isinstance(answer := await self._ask_once(query), Refused) and answer.reason == "task":
            self._waits.begin(
                "fleet-task", f"the fleet's next task: {answer.explanation}", _RETRY_SECONDS, repeats=True
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._throttle.stopping.wait(), _RETRY_SECONDS)
            self._waits.end("fleet-task")
        return answer

    async def _ask_once(self, query: Query | CellQuery) -> Answer | CellAnswer | None:
        if not await self._head_gossip.wait_for_permission() or not await self._throttle.wait_if_needed():
            return None
        async with self._lock:
            if self._is_leaving():
                return None
            name = "a step of a secure sum" if isinstance(query, CellQuery) else f"query {query.slot}"
            self._waits.begin(_WAIT, f"the vault to answer {name}", _ANSWER_SECONDS)
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await self._ask_vault(query)
            self._waits.end(_WAIT)
            if isinstance(answer, Refused) and answer.reason == "terms":  # the learner cannot continue
                raise PrivacyError(
                    f"the vault refused {name}: {answer.explanation}. In the configurations of both the agent "
                    "and the vault, restore the previous settings under [learner], [data] and [privacy]"
                )
            if isinstance(answer, Refused) and isinstance(query, Query) and answer.reason == "query":
                _log.warning("query-refused quantity=%s %s", query.kind, answer.explanation)
            loop = asyncio.get_running_loop()
            self.spending, tip = await loop.run_in_executor(None, lambda: (self._vault.spending(), self._vault.tip()))
            self._head_gossip.advance(tip)
        return answer

    async def _ask_vault(self, query: Query | CellQuery) -> Answer | CellAnswer:
        return await (self._vault.take_part(query) if isinstance(query, CellQuery) else self._vault.ask(query))

    async def wait_until_idle(self) -> None:
        """Wait until the answer to the current query, if any, has been processed."""
        async with self._lock:
            pass


def check_cell(config: AgentConfig) -> None:
    """Check that a device with a static list of peers knows enough other devices for a secure sum.

    Raises:
        ConfigError: if there are too few other devices.
    """
    devices = len(config.transport.peers) + 1
    if config.cell is not None and config.membership.sampling == "static" and devices < config.cell.least:
        alternative = f", or set privacy.cell.min to {devices} on all devices" if devices > 2 else ""
        raise ConfigError(
            f"privacy.cell.min: a secure sum requires at least {config.cell.least} devices, but this device and "
            f"its transport.peers number only {devices}; list more peers{alternative}"
        )


def _check_data_kind(config: AgentConfig) -> None:
    """Check that each row of the data becomes a record by itself, or that the owner accepts an unproved ε.

    Raises:
        PrivacyError: if neither holds.
    """
    reason = unproved_reason(parse(config.data.source))
    if reason and not config.privacy.allow_unproved:
        raise PrivacyError(
            f"data.source: no ε is proved: {reason}; mend it, see `sottovoce plugins --check`, or set "
            "privacy.allow_unproved = true"
        )


def runnable_family(config: AgentConfig) -> Family:
    """Return the family for a configuration after checking that its model can run here and fits into a message.

    Raises:
        SottovoceError: if there is no such family, a check fails, or the budget does not allow such a release.
    """
    try:
        width(config.data.transform, config.data.features)
    except DataError as error:
        raise ConfigError(f"data.transform: {error}") from error
    _check_data_kind(config)
    family = build_family(config)
    check_private_half(family, allow_unproved=config.privacy.allow_unproved)
    family.check()
    if family.model.size > MAX_PARAMETERS:
        raise ConfigError(
            f"learner.model: a model with {family.model.size} parameters does not fit in a message, whose limit "
            f"is {MAX_PARAMETERS} parameters; use a smaller model, or declare fewer features or classes"
        )
    return family
