"""Plain-language explanation of a configuration's privacy promise: its content, whom it protects, and its limits.

An ε covers one unit, but a person may contribute several. Units may share releases, as a device's records share its
sums; k units can then change a release by up to k times as much as one unit can. Days share sums, too: a device that
follows a feed learns from every day that has budget left, so a sum covers up to 48 days. Alternatively, each unit has
its own releases, as a device has that adds its own noise; the units' costs then compose.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import Family, required_budget
from sottovoce.config import AgentConfig
from sottovoce.node.local_vault import preview_statement
from sottovoce.privacy.accounting.events import CellSum, Event
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON, format_rounded_up, gaussian_epsilon, sum_epsilons
from sottovoce.privacy.accounting.sampled import SampledGaussian, sampled_epsilon
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import MIN_DAYS, Budget, RenewalInterval, Spending, read_policy

SCHEMA = "sottovoce.privacy-explanation/1"

_UNITS = {
    "record": "one record: a row of features with its label. k records of one person have at least k times the ε",
    "window": "all records in one window, for example one day",
    "device": "everything in this device's data",
}
_NEIGHBOURS = {
    "add-remove": "whether the unit is present; the number of units is hidden too",
    "replace-one": "the content of the unit; the number of units is public",
}
_COMBINATIONS = {"epsilon_apart": "in separate releases", "epsilon_together": "in the same releases"}
_NOT_COVERED = (
    "the device itself, its disk and its memory, and anyone with access to them",
    "the fact that this device takes part, when it is on, which peers it talks to, and how much it sends",
    "what other people's data reveals about you: the model may be right about people it has never seen",
    "the same data on a second device, or on this one under a new identity: the budgets add up",
    "everything that is declared public: bounds, features, classes, schedule and transform",
)


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    """Totals from a device's ledger.

    Attributes:
        spending: spending so far.
        path: path of the ledger file.
        lifetime_budget: lifetime budget for all tasks together, if the fleet has signed the current task.
        enrolled: number of records that the ledger stores.
    """

    spending: Spending
    path: str
    lifetime_budget: Budget | None = None
    enrolled: int = 0


def build_explanation(config: AgentConfig, spent: LedgerTotals | None) -> dict[str, Any]:
    """Return the explanation of a configuration as a JSON-serialisable dictionary.

    Args:
        config: an agent's configuration.
        spent: the agent's spending so far; None without a ledger.

    Raises:
        PrivacyError: if the configuration has no guarantee; the message states the reason.
    """
    budget, family = required_budget(config), build_family(config)
    statement, lifetime = preview_statement(config.data, budget, family)
    is_per_day = config.follows and budget.unit == "window"
    policy = read_policy(config.vault.policy)
    return {
        "schema": SCHEMA,
        "learner": config.learner.name,
        "statement": statement.as_dict(),
        "promise": _describe_promise(statement),
        "unit": _UNITS[budget.unit],
        "person": _person_promises(budget, lifetime),
        "hidden": _NEIGHBOURS[budget.neighbouring],
        "leaves_the_device": config.learner.algorithm.releases,
        "seen_by": {
            "local": statement.threat_model,
            "pairwise": "a peer sees no more; on a sparse graph, a distant peer sees less: `sottovoce privacy views`",
            "central": "anyone who sees only the final model learns less; no figure is given for that here",
        },
        "total": f"{'a day contributes to at most ' if is_per_day else ''}{_describe_total(family, statement)}",
        "steps": _first_step(family),
        "centre": family.centre(),
        "signal": _signal_and_noise(family),
        "not_covered": list(_NOT_COVERED),
        "erasure": _describe_erasure(family, spent),
        "left": _remaining_budget(budget, spent),
        "all_tasks": _describe_all_tasks(spent),
        "renews": _describe_renewal(budget, policy.renews, follows=is_per_day),
        "limits": dict(policy.limits),
    }


def person_promises(config: AgentConfig) -> list[dict[str, Any]]:
    """Return the promise for several units of one person, JSON-serialisable; empty if nothing is promised.

    Raises:
        PrivacyError: if the configuration has no guarantee.
    """
    budget = required_budget(config)
    return _person_promises(budget, preview_statement(config.data, budget, build_family(config))[1])


def _person_promises(budget: Budget, lifetime: Mapping[Event, int]) -> list[dict[str, Any]]:
    """Return the promise for several units of one person, at the same δ; an ε is null if it is not finite.

    An entry has `epsilon_apart` if the units are in separate releases, as devices are that add their own noise.
    Otherwise, it has `epsilon_together`: all of a device's records may be in the same releases, and so may its windows
    and, in a secure sum, all devices.
    """
    groups = [(count, f"{count} {budget.unit}s") for count in (2, 5)]
    groups += [(7, "a week (7 days)"), (30, "a month (30 days)"), (365, "a year (365 days)")] * (
        budget.unit == "window"
    )
    is_apart = budget.unit == "device" and not any(isinstance(event, CellSum) for event in lifetime)
    key, epsilon = (
        ("epsilon_apart", epsilon_in_separate_releases)
        if is_apart
        else ("epsilon_together", epsilon_in_shared_releases)
    )
    return [
        {"units": count, "words": words, key: _finite(epsilon(lifetime, count, budget.delta))}
        for count, words in groups
        if lifetime
    ]


def describe_person_promise(promise: dict[str, Any], *, in_task: bool) -> str:
    """Return an entry of the explanation's `person` list as text; every ε is rounded up.

    Args:
        promise: the entry.
        in_task: whether the promise is that of a fleet task, whose cost adds to that of the device's other tasks.
    """
    key, combination = next(entry for entry in _COMBINATIONS.items() if entry[0] in promise)
    epsilon = promise[key]
    cost = "no meaningful ε" if epsilon is None else f"ε = {format_rounded_up(epsilon)}"
    return f"{promise['words']}{', in this task alone' if in_task else ''}: {cost}, {combination}"


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _describe_promise(statement: PrivacyStatement) -> str:
    if statement.epsilon is None or statement.status is not Status.PROVED:
        return f"nothing is promised: {statement.reason.removeprefix('refuted: ')}"
    odds = math.exp(statement.epsilon)
    certainty = 100 * odds / (1 + odds)
    return (
        "anyone who sees everything that this device ever sends, and who at first considers two data sets that differ "
        "in one unit equally likely, can tell which one the device has with odds of at most "
        f"{format_rounded_up(odds)} to 1, or {format_rounded_up(certainty)} % certainty (ε = {statement.epsilon:g}), "
        f"up to a failure probability of δ = {statement.delta:g}"
    )


def _describe_total(family: Family, statement: PrivacyStatement) -> str:
    match family.terms:
        case GradientTerms(releases=releases) if statement.epsilon is not None:
            return f"{releases} noisy sums, {statement.mechanism}; {statement.composition}"
        case RecordTerms() if statement.epsilon is not None:
            return f"one release per record, {statement.mechanism}; {statement.composition}"
    return f"{statement.mechanism}; {statement.composition}"


def _remaining_budget(budget: Budget, spent: LedgerTotals | None) -> dict[str, Any]:
    if spent is None:
        return {"ledger": None, "epsilon": budget.epsilon, "spent_epsilon": None, "charges": None}
    present = spent.spending.current
    remaining = None if budget.epsilon is None else max(0.0, budget.epsilon - present.epsilon)
    return {
        "ledger": spent.path,
        "epsilon": remaining,
        "spent_epsilon": present.promised_epsilon,
        "charges": spent.spending.charges,
    }


def _describe_all_tasks(spent: LedgerTotals | None) -> dict[str, Any] | None:
    """Return the joint cost of all fleet tasks, or None if the fleet has signed no task."""
    if spent is None or spent.lifetime_budget is None or spent.spending.of_task is None:
        return None
    life = spent.lifetime_budget
    return {
        "epoch": spent.spending.of_task.epoch,
        "epsilon": life.epsilon,
        "spent_epsilon": spent.spending.promised_epsilon,
        "delta": life.delta,
        "unit": life.unit,
        "neighbouring": life.neighbouring,
    }


def _describe_erasure(family: Family, spent: LedgerTotals | None) -> str:
    """Return what is possible if a person's record must be erased."""
    enrols_records = family.enrols_records or isinstance(family.terms, RecordTerms)
    if enrols_records or (spent is not None and spent.enrolled):
        stored = "the records of the first start" if spent is None else f"{spent.enrolled} records of the first start"
        removal = (
            f"the ledger stores {stored} and reads no later file; the next task that the fleet signs erases them, and "
            "uses the file as it is then"
        )
    else:
        removal = (
            "a record that you remove from the data source is in no later release, and the ledger stores no record"
        )
    return f"{removal}. What was released stays with other devices and cannot be recalled: docs/how-to/erase.md"


def _first_step(family: Family) -> dict[str, Any] | None:
    """Return the number of private steps and how the first step's size was chosen; None without such steps."""
    step = family.first_step()
    return None if step is None else {"steps": step.steps, "step_size": step.step_size, "words": step.summary}


def _signal_and_noise(family: Family) -> dict[str, Any] | None:
    """Return the signal and the noise in the device's releases, or None if they are unknown."""
    signal = family.signal()
    if signal is None:
        return None
    return {"signal": signal.signal, "noise": signal.noise, "devices": signal.devices, "words": signal.summary}


def _describe_renewal(budget: Budget, renews: RenewalInterval, *, follows: bool) -> str:
    if renews != "never":
        return (
            f"at most once per {renews}: when the fleet signs a task for a later period, and the vault has been "
            f"running for {MIN_DAYS[renews]} days since the last renewal; earlier releases still count, so the ε over "
            "several periods is higher, and it is reported in addition to this one"
        )
    if follows:
        return (
            "every day: each day is charged separately after it ends; a new device makes half of its releases at once "
            "and then one per day; the budget of a spent day is not renewed, and future days are not charged yet"
        )
    if budget.unit == "window":
        return "with new data only: each new window has its own budget, and the budget of an old window is not renewed"
    return "never: once the budget is spent, the device continues to gossip public data but releases nothing new"


_STEPS = 60


def epsilon_in_separate_releases(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return the ε of k units in separate releases, rounded up; infinite above MAX_EPSILON.

    Args:
        charges: charges to one unit, and how often each was made.
        units: k.
        delta: δ for all units together.
    """
    return _unit_epsilon({event: units * count for event, count in charges.items()}, delta)


def epsilon_in_shared_releases(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return the ε of k units in the same releases, rounded up; infinite above MAX_EPSILON.

    For k units, a Gaussian release has k times the μ and a pure release has k times the ε. If releases use a random
    subset of the units, the result is the smaller of two bounds. The first is the cost if every unit were always
    included. The second is group privacy, which holds for every (ε′, δ′): k units have (kε′, k e^((k-1)ε′) δ′)
    (Vadhan 2017, Lemma 2.2).

    Args:
        charges: charges to one unit, and how often each was made.
        units: k.
        delta: δ for all units together.
    """
    if not any(isinstance(event, SampledGaussian) for event in charges):
        mu_squared, pure = _closed_form_sums(charges)
        return sum_epsilons(gaussian_epsilon(units * math.sqrt(mu_squared) * (1 + 2**-50), delta), units * pure)
    always = _epsilon_without_sampling(charges, units, delta)
    low, high = 0.0, MAX_EPSILON / units
    if not _is_private(charges, units, delta, high):
        return always
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_private(charges, units, delta, middle) else (middle, high)
    return min(always, units * high)


def _epsilon_without_sampling(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return ε as if every unit were included in every sampled release; never an underestimate."""
    mu_squared, pure = _closed_form_sums(
        {event: repeats for event, repeats in charges.items() if not isinstance(event, SampledGaussian)}
    )
    for event, count in charges.items():
        if isinstance(event, SampledGaussian):
            mu_squared += count * (event.distance / event.noise) ** 2
    return sum_epsilons(gaussian_epsilon(units * math.sqrt(mu_squared) * (1 + 2**-48), delta), units * pure)


def _is_private(charges: Mapping[Event, int], units: int, delta: float, epsilon: float) -> bool:
    """Return whether one unit is (ε′, δ′)-private, for the δ′ at which k units are (kε′, δ)-private."""
    exponent = math.log(delta) - math.log(units) - (units - 1) * epsilon
    return exponent > math.log(1e-300) and _unit_epsilon(charges, math.exp(exponent)) <= epsilon


def _unit_epsilon(charges: Mapping[Event, int], delta: float) -> float:
    sampled = {event: count for event, count in charges.items() if isinstance(event, SampledGaussian)}
    mu_squared, pure = _closed_form_sums(charges)
    if sampled and math.isfinite(pure):
        return sampled_epsilon(mu_squared, pure, sampled, delta)
    return sum_epsilons(gaussian_epsilon(math.sqrt(mu_squared) * (1 + 2**-50), delta), pure)


def _closed_form_sums(charges: Mapping[Event, int]) -> tuple[float, float]:
    """Return Σ μ² and Σ ε over all charges."""
    return (
        math.fsum(count * event.mu_squared for event, count in charges.items()),
        math.fsum(count * event.epsilon for event, count in charges.items()) * (1 + 2**-50),
    )
