"""Decides whether this device activates a task signed by its fleet; runs in the vault's process, with the ledger.

Neither this module nor its imports use a network. The caller may be a compromised agent, so the signature, the epoch,
the calendar, and the owner's policy and consent are all checked here, and the ledger stores the outcome. The decision
does not depend on any record.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, VaultSection, config_for_task
from sottovoce.errors import ConfigError, IdentityError, TaskRefused
from sottovoce.fleet.authority import Authority
from sottovoce.fleet.consent import read_consent
from sottovoce.fleet.identity import FLEET_CERTIFICATE
from sottovoce.fleet.signed_task import SignedTask, read_task
from sottovoce.node.gossip.revocation_store import store_key_changes
from sottovoce.node.local_vault import make_no_task_check, preview_statement
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.vault import Ledger, Mandate, read_policy

_EARLY_SECONDS = 60.0  # tolerated clock difference, in seconds


@dataclass(frozen=True, slots=True)
class TaskActivator:
    """A callable that activates tasks on one device.

    Attributes:
        config: the device's configuration.
        ledger: the ledger, opened for charging.
        directory: directory that contains the ledger and the owner's consent.
        authority: returns the authority whose signatures are accepted.
        clock: returns Unix time in seconds.
    """

    config: AgentConfig
    ledger: Ledger
    directory: Path
    authority: Callable[[], Authority]
    clock: Callable[[], float] = time.time

    def __call__(self, document: bytes) -> None:
        """Durably switch charging to this task, and stop charging for any earlier one.

        Args:
            document: the task document, from an untrusted source.

        Raises:
            TaskRefused: if the task is refused, or cannot be activated yet; nothing has changed.
            SottovoceError: if activation fails for another reason; nothing has changed.
        """
        task = read_task(document, "this document")
        try:
            task.verify(self.authority())
        except IdentityError as error:
            raise TaskRefused(str(error)) from error
        current_mandate = self.ledger.mandate
        if current_mandate is not None and task.epoch <= current_mandate.epoch:
            raise TaskRefused(f"epoch {task.epoch} has passed: this device is already in epoch {current_mandate.epoch}")
        if self.clock() < task.begins - _EARLY_SECONDS:
            raise TaskRefused("the task has not begun")
        if task.ends is not None and self.clock() >= task.ends:
            raise TaskRefused("the task has ended")
        config, mandate = self._authorise_task(task)
        family = build_family(config)
        family.check()
        self.ledger.check(preview_statement(config.data, mandate.budget, family)[1], mandate)
        if (self.directory / FLEET_CERTIFICATE).exists():  # a separate vault, which receives new keys only here
            store_key_changes(self.directory, task.keys)
        self.ledger.take_up(mandate)

    def _authorise_task(self, task: SignedTask) -> tuple[AgentConfig, Mandate]:
        try:
            policy = read_policy(self.config.vault.policy)
            config = config_for_task(self.config, task.tables, task.epoch, policy.epsilon)
            _check_shape(self.config, config)
        except ConfigError as error:
            raise TaskRefused(f"this device cannot carry out the task: {error}") from error
        policy.check(algorithm=config.learner.name, unit=config.unit, purpose=task.purpose, cell=config.cell)
        answer = read_consent(self.directory, task)
        if answer == "refused":
            raise TaskRefused("the owner has refused the task")
        if policy.approve == "ask" and answer != "approved":
            raise TaskRefused(f"the task awaits the owner's approval: sottovoce agent task approve {task.epoch}")
        return config, Mandate(task.epoch, required_budget(config), task.encoding, task.period)


def _check_shape(own_config: AgentConfig, config: AgentConfig) -> None:
    """Check public facts about the records without reading them, because other devices see the outcome.

    Raises:
        ConfigError: if the task needs records that differ from the owner's declaration.
    """
    for key in ("features", "classes"):
        declared_value, required_value = getattr(own_config.data, key), getattr(config.data, key)
        if declared_value != required_value:
            raise ConfigError(
                f"data.{key}: the task specifies {required_value}, but this device declares {declared_value}"
            )


def make_closed_reason(
    vault: VaultSection,
    ledger: Ledger,
    directory: Path,
    clock: Callable[[], float],
    *,
    algorithm: str,
    cell: Cell | None,
) -> Callable[[], str | None]:
    """Return VaultContext.closed_reason for the last activated task; it returns why releases stopped, or None.

    Args:
        vault: the vault's section of the configuration.
        ledger: the ledger, opened for charging.
        directory: directory that contains the ledger and the owner's consent.
        clock: returns Unix time in seconds.
        algorithm: the learner that the task sets.
        cell: limits of the cells that the task sets; None without secure sums.

    Raises:
        ConfigError: if the policy cannot be read. The policy is read only once, so a change requires a restart.
    """
    mandate = ledger.mandate
    if mandate is None:
        return make_no_task_check(vault)
    task, policy_refusal = read_task(mandate.document, "the task in the ledger"), None
    try:
        read_policy(vault.policy).check(algorithm=algorithm, unit=mandate.budget.unit, purpose=task.purpose, cell=cell)
    except TaskRefused as refusal:
        policy_refusal = str(refusal)

    def closing_reason() -> str | None:
        if task.ends is not None and clock() >= task.ends:
            return f"the task of epoch {task.epoch} has ended"
        try:
            answer = read_consent(directory, task)
        except IdentityError as error:
            return str(error)
        if answer in ("refused", "withdrawn"):
            return f"the owner has refused, or withdrawn from, the task of epoch {task.epoch}"
        return policy_refusal

    return closing_reason


def active_configuration(config: AgentConfig, ledger: Ledger) -> AgentConfig:
    """Return the configuration under the last activated task, or the device's own if no task was activated."""
    mandate = ledger.mandate
    if mandate is None:
        return config
    task = read_task(mandate.document, "the task in the ledger")
    return config_for_task(config, task.tables, task.epoch, mandate.budget.epsilon)
