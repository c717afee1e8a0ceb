"""Construction of a vault in this process: an agent's own vault, or the one that `sottovoce vault run` serves.

Neither this module nor its imports use a network, because the process of a separate vault is built from it.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.algorithms.family import Family, prepare_records
from sottovoce.config import AgentConfig, DataSection
from sottovoce.data import DataSet, Declaration, Records, load, parse, uniform_bounds
from sottovoce.data.spec import unproved_reason
from sottovoce.errors import ConfigError
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import (
    GrowingRecords,
    Ledger,
    OperatingSystemNoise,
    SeededNoise,
    TrustedDays,
    Vault,
    read_policy,
)

if TYPE_CHECKING:  # imported late: only devices in a cell need it
    from sottovoce.privacy.secure_sum.statements import Statement

LEDGER = "ledger.db"


def make_no_task_check(config: AgentConfig) -> Callable[[], str | None]:
    """Return VaultContext.closed_reason for a vault without a task; it blocks releases if tasks must be signed."""
    reason = (
        "the fleet has not signed any task that this device carries out" if config.vault.tasks == "signed" else None
    )
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

    Raises:
        SottovoceError: if the records cannot be read, or the terms do not have a privacy guarantee.
    """
    _apply_limits(config, ledger)
    growing_records = None
    if config.follows:
        last_window = (
            None if config.data.windows is None or config.learner.algorithm.regression else config.data.windows[1]
        )
        days = TrustedDays(clock, ledger.last_window(), uptime)
        growing_records = GrowingRecords(lambda: load_configured_records(config.data), days, last_window)
    return build(
        records=load_configured_records(config.data),
        growing_records=growing_records,
        kernel=family.kernel,
        terms=family.terms,
        ledger=ledger,
        noise=OperatingSystemNoise() if noise is None else noise,
        closed_reason=closing_reason,
        verify_signature=verify_member,
        unproved=unproved_reason(parse(config.data.source)),
    )


def _apply_limits(config: AgentConfig, ledger: Ledger) -> None:
    """Apply the owner's monthly, yearly and budget-period limits, and count the running time in each span.

    With signed tasks, time is counted even without limits, to estimate how long the budget lasts.
    """
    policy, unit = read_policy(config.vault.policy), ledger.own_budget.unit
    if policy.renews != "never" and unit != "device":
        raise ConfigError(
            f"vault.policy: {config.vault.policy}: renews: the budget for a {unit} is never renewed, because "
            f"each {unit} is charged separately and only once; remove this key"
        )
    ledger.periods.allow_renewal(policy.renews)
    if policy.limits:
        ledger.set_limits(policy.limits)
    if policy.limits or policy.renews != "never" or config.vault.tasks == "signed":
        ledger.start_counting()
    ledger.record_running_time()


def load_configured_records(data: DataSection) -> Records:
    """Return the configured records, each clamped and transformed by itself.

    Raises:
        DataError: if the records cannot be read, or differ from the declaration.
    """
    dataset = load_configured_dataset(data)
    return prepare_records(dataset.records, data.transform, dataset.bounds)


def load_configured_dataset(data: DataSection) -> DataSet:
    """Return the configured records before the transform, each looked up in the declaration, and their declared ranges.

    From a feed, a regression receives its forecasting records, and any other learner receives the loads of the declared
    days.

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
    dataset = load(spec, Declaration(data.classes, data.features, data.columns, data.labels))
    raw = dataset.records
    if uses_loads and data.windows is not None and raw.windows is not None:
        first, last = data.windows
        raw = raw.at(np.flatnonzero((raw.windows >= first) & (raw.windows <= last)))
    bounds = dataset.bounds if data.bounds is None else uniform_bounds(*data.bounds, data.features, "data.bounds")
    return replace(dataset, records=raw, bounds=bounds)
