"""Construction of a vault in this process: an agent's own vault, or the one that `sottovoce vault run` serves.

Neither this module nor its imports use a network, because the process of a separate vault is built from it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig, DataSection, VaultSection
from sottovoce.data import DataSet, Declaration, Records, Table, load, parse, prepare_records, uniform_bounds, width
from sottovoce.data.spec import unproved_reason
from sottovoce.errors import ConfigError, PrivacyError
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import PrivacyStatement
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.rows import OutsideTerms
from sottovoce.privacy.vault import (
    Budget,
    GrowingRecords,
    Ledger,
    OperatingSystemNoise,
    SeededNoise,
    TrustedDays,
    Vault,
    read_policy,
)

if TYPE_CHECKING:
    from sottovoce.privacy.secure_sum.statements import Statement

LEDGER = "ledger.db"


def make_no_task_check(vault: VaultSection) -> Callable[[], str | None]:
    """Return VaultContext.closed_reason for a vault without a task; it blocks releases if tasks must be signed."""
    reason = "the fleet has not signed any task that this device carries out" if vault.tasks == "signed" else None
    return lambda: reason


def make_vault(
    config: AgentConfig,
    family: Family,
    ledger: Ledger,
    *,
    clock: Callable[[], float] = time.time,
    uptime: Callable[[], float] | None = None,
    noise: SeededNoise | None = None,
    closing_reason: Callable[[], str | None] = lambda: None,
    verify_member: "Callable[[Statement], None] | None" = None,
    table: Table | None = None,
) -> Vault:
    """Return the vault for the configured records and an open ledger.

    Args:
        config: configuration of the agent.
        family: family of its learner.
        ledger: the ledger, opened for charging.
        clock: returns Unix time in seconds.
        uptime: returns seconds on a monotonic clock; None for the machine's uptime.
        noise: noise source of a simulation, whose releases are never sent over a network; None for the operating
            system's noise source.
        closing_reason: returns the reason why nothing more is released, or None.
        verify_member: verifies the signatures of other devices in secure sums.
        table: rows that a program passes to its agent; None to read data.source.

    Raises:
        SottovoceError: if the records cannot be read, or the terms do not have a privacy guarantee.
    """
    check_private_half(family, allow_unproved=config.privacy.allow_unproved)
    _apply_limits(config.vault, ledger)
    growing_records = None
    if config.follows:
        last_window = (
            None if config.data.windows is None or config.learner.algorithm.regression else config.data.windows[1]
        )
        lateness = config.feed.lateness
        days = TrustedDays(lambda: clock() - lateness, ledger.last_window(), uptime)
        growing_records = GrowingRecords(lambda: load_configured_records(config.data), days, last_window)
    return build(
        records=load_configured_records(config.data, table),
        growing_records=growing_records,
        kernel=family.kernel,
        terms=family.terms,
        ledger=ledger,
        noise=OperatingSystemNoise() if noise is None else noise,
        closed_reason=closing_reason,
        verify_signature=verify_member,
        unproved=unproved_reason(parse(config.data.source)),
    )


def check_private_half(family: Family, *, allow_unproved: bool) -> None:
    """Check that this package computes on the records itself, or that the owner accepts an unproved ε.

    Raises:
        PrivacyError: if neither holds.
    """
    if isinstance(family.terms, OutsideTerms) and not allow_unproved:
        raise PrivacyError(
            f"learner.name: no ε is proved: {family.terms.unproved}; or set privacy.allow_unproved = true"
        )


def _apply_limits(vault: VaultSection, ledger: Ledger) -> None:
    """Apply the owner's monthly, yearly and budget-period limits, and count the running time in each span.

    With signed tasks, time is counted even without limits, to estimate how long the budget lasts.
    """
    policy, unit = read_policy(vault.policy), ledger.own_budget.unit
    if policy.renews != "never" and unit != "device":
        raise ConfigError(
            f"vault.policy: {vault.policy}: renews: the budget for a {unit} is never renewed, because "
            f"each {unit} is charged separately and only once; remove this key"
        )
    ledger.periods.allow_renewal(policy.renews)
    if policy.limits:
        ledger.set_limits(policy.limits)
    if policy.limits or policy.renews != "never" or vault.tasks == "signed":
        ledger.start_counting()
    ledger.record_running_time()


def load_configured_records(data: DataSection, table: Table | None = None) -> Records:
    """Return the configured records, each clamped and transformed by itself; see make_vault for the table.

    Raises:
        DataError: if the records cannot be read, or differ from the declaration.
    """
    dataset = load_configured_dataset(data, table)
    return prepare_records(dataset.records, data.transform, dataset.bounds)


def load_configured_dataset(data: DataSection, table: Table | None = None) -> DataSet:
    """Return the configured records before the transform, each looked up in the declaration, and their declared ranges.

    A table takes the place of data.source. From a feed, a regression receives its forecasting records, and any other
    learner receives the loads of the declared days.

    Raises:
        ConfigError: if the source has a test split.
        DataError: if the records cannot be read, or differ from the declaration.
    """
    spec = parse(data.source)
    if "test" in spec.options:
        raise ConfigError(
            "data.source: a device holds no records out for testing, because a share of the records depends on their "
            "number; remove test"
        )
    uses_loads = spec.kind == "feed" and data.classes > 1
    if uses_loads:
        spec = replace(spec, options={**spec.options, "task": "profile"})
    elif spec.kind == "meters" and data.classes == 1:
        spec = replace(spec, options={**spec.options, "test": "0"})
    declaration = Declaration(data.classes, data.features, data.columns, data.labels)
    dataset = load(spec, declaration) if table is None else table.dataset(declaration)
    raw = dataset.records
    if uses_loads and data.windows is not None and raw.windows is not None:
        first, last = data.windows
        raw = raw.at(np.flatnonzero((raw.windows >= first) & (raw.windows <= last)))
    bounds = dataset.bounds if data.bounds is None else uniform_bounds(*data.bounds, data.features, "data.bounds")
    return replace(dataset, records=raw, bounds=bounds)


def preview_statement(
    data: DataSection, budget: Budget, family: Family
) -> tuple[PrivacyStatement, Mapping[Event, int]]:
    """Return the vault's own statement and the total charge of one unit, without using any records.

    Raises:
        PrivacyError: if nothing can be promised under this budget.
    """
    features = width(data.transform, data.features)
    empty = np.empty(0, dtype=np.int64)
    ledger = Ledger.in_memory("nobody", budget)
    try:
        vault = build(
            records=Records(np.empty((0, features)), empty, empty),
            kernel=family.kernel,
            terms=family.terms,
            ledger=ledger,
            noise=OperatingSystemNoise(),
        )
        return vault.statement, vault.lifetime
    finally:
        ledger.close()
