"""Construction of a vault in this process: an agent's own vault, or the one that `sottovoce vault run` serves.

Neither this module nor its imports use a network, because the process of a separate vault is built from it.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.algorithms.family import Family, prepare_records
from sottovoce.config import AgentConfig, DataSection
from sottovoce.data import Records, check_records, load, uniform_bounds
from sottovoce.errors import ConfigError, DataError
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
    """Return the configured records, clamped and transformed as declared.

    From a feed, a regression receives its forecasting records, and any other learner receives the loads of the declared
    days.

    Raises:
        DataError: if the records cannot be read, or differ from the declaration.
    """
    uses_loads = data.source.startswith("feed:") and data.classes > 1
    loaded_data = load(f"{data.source}{'&' if '#' in data.source else '#'}task=profile" if uses_loads else data.source)
    raw = check_records(
        loaded_data.records.features,
        loaded_data.records.labels,
        features_expected=data.features,
        classes=data.classes,
        windows=loaded_data.records.windows,
        origin=data.source,
    )
    if uses_loads and data.windows is not None and raw.windows is not None:
        first, last = data.windows
        raw = raw.at(np.flatnonzero((raw.windows >= first) & (raw.windows <= last)))
    if loaded_data.classes != data.classes:
        raise DataError(
            f"{data.source}: the class numbers do not match data.classes = {data.classes}; use an npz file with "
            "a `classes` array, which makes every device number the classes in the same way"
        )
    bounds = loaded_data.bounds
    if data.bounds is not None:
        bounds = uniform_bounds(*data.bounds, data.features, "data.bounds")
    return prepare_records(raw, data.transform, bounds)
