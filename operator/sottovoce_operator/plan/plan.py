"""The expected error of each product of a task, its noise and its traffic, before any privacy budget is spent.

The plan asks `estimate_products` what it would state for a fleet of homes that use exactly what is publicly known. Its
standard errors are those that `sottovoce results` would print, so plan and result follow the same rules.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.config.task_config import read_proposed_task
from sottovoce.data.products import AnnualBins, Curve, Flags, Products
from sottovoce.errors import ConfigError
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms.means import MeanTerms

from sottovoce_operator.estimate import Estimate
from sottovoce_operator.products import Opened, estimate_products, root_mean_square

Floats = NDArray[np.float64]

QUANTILES = "annual-quantiles"
"""Name of the product whose values differ so much that each has an error relative to itself."""

WORTH = 0.8
"""Largest ratio of the expected error to the public prior's at which a product is worth its ε."""
COUNT_WORTH = 0.2
"""Largest part of the homes by which a count's 95 % bar may reach up: a count of a fifth must differ from none."""

_FLEETS = tuple(round(10 * 1.2**step) for step in range(51))  # 10 to about 90,000 homes
_SENT_BYTES, _RECEIVED_BYTES = 430, 1_500
"""Bytes per other home apart from vectors: shares, signatures and proofs, measured in a cell of 64
(docs/explanation/secure-sums.md)."""


@dataclass(frozen=True, slots=True)
class PlannedProduct:
    """What is expected of one product.

    Attributes:
        estimate: the estimate for a fleet of public homes.
        worth_from: number of homes from which on it is worth its ε; None if no fleet is large enough.
    """

    estimate: Estimate
    worth_from: int | None

    @property
    def relative_error(self) -> float | None:
        """The expected error relative to the mean, or to each quantile; None for counts, which have no public mean."""
        estimate = self.estimate
        if estimate.prior is None:
            return None
        if estimate.name == QUANTILES:
            return root_mean_square(estimate.errors / estimate.values)
        return estimate.error / float(np.mean(estimate.values))

    @property
    def relative_prior_error(self) -> float | None:
        """The public prior's error relative to the mean; None if there is no prior."""
        estimate = self.estimate
        return None if estimate.prior_error is None else estimate.prior_error / float(np.mean(estimate.values))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to expect of a task.

    Attributes:
        homes: number of homes in the roster.
        heard: number of homes expected in the sum.
        epsilon: ε of the task.
        sigma: σ of the noise in each number of the sum, whose sensitivity is 1.
        numbers: number of numbers in a home's vector.
        sent_bytes: estimate of the bytes that a home sends: two copies of its vector, and its shares.
        received_bytes: estimate of the bytes that a home receives: everyone's vectors, and what proves the sum.
        products: the products.
    """

    homes: int
    heard: int
    epsilon: float
    sigma: float
    numbers: int
    sent_bytes: int
    received_bytes: int
    products: tuple[PlannedProduct, ...]

    @property
    def refused(self) -> tuple[PlannedProduct, ...]:
        """The products for which the public prior, or no count at all, does as well."""
        return tuple(product for product in self.products if not is_worth_it(product.estimate, self.heard))


def make_plan(file: Path, homes: int, silent: float) -> Plan:
    """Return the plan of a task.

    Args:
        file: the task, as for `sottovoce fleet task`.
        homes: number of homes in the fleet.
        silent: fraction of them that is expected not to answer.

    Raises:
        ConfigError: if the task is invalid, has no products or no secure sums, or cannot be opened by so few homes.
    """
    config = _read_config(file)
    terms, cell = cast(MeanTerms, build_family(config).terms), config.cell
    if not isinstance(terms.profile, Products) or cell is None:
        raise ConfigError(
            f'{file}: a plan needs products in a secure sum: set learner.products, and privacy.noise to "cell"'
        )
    heard = round(homes * (1 - silent))
    if not cell.least <= homes <= cell.most:
        raise ConfigError(
            f"{file}: privacy.cell: {homes} homes are not one cell of {cell.least} to {cell.most} members; set min and "
            "max for this fleet"
        )
    if heard < cell.opening_threshold(homes):
        raise ConfigError(
            f"{file}: privacy.cell.threshold: a sum of {homes} homes opens with {cell.opening_threshold(homes)} of "
            f"them, but only {heard} are expected to answer; reduce threshold"
        )
    mechanism = terms.cell_mechanism(required_budget(config))
    estimates = _expect(config, terms, cell, homes, heard)
    vector, worth_from = terms.profile.size * mechanism.width(homes), _worth_from(config, terms, cell, silent)
    return Plan(
        homes=homes,
        heard=heard,
        epsilon=config.privacy.epsilon,
        sigma=_sigma(config, terms, cell, homes, heard),
        numbers=terms.profile.size,
        sent_bytes=2 * vector + homes * _SENT_BYTES,
        received_bytes=homes * (vector + _RECEIVED_BYTES),
        products=tuple(PlannedProduct(estimate, worth_from.get(estimate.name)) for estimate in estimates),
    )


def is_worth_it(estimate: Estimate, heard: int) -> bool:
    """Return whether an estimate is expected to be clearly better than what is publicly known."""
    if estimate.prior_error is None:
        return 1.96 * estimate.error <= COUNT_WORTH * heard
    return estimate.error <= WORTH * estimate.prior_error


def refusals(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each product that is not worth its ε."""
    for product in plan.refused:
        estimate = product.estimate
        remedy = (
            "no number of homes makes it worth its ε with these settings"
            if product.worth_from is None
            else f"it is worth its ε from about {product.worth_from:,} homes on"
        )
        if estimate.prior_error is None:
            yield (
                f"{estimate.name}: with {plan.heard} homes in the sum and an expected error of {estimate.error:.1f}, a "
                f"count of a fifth of the homes cannot be told from none; {remedy}"
            )
        else:
            yield (
                f"{estimate.name}: the public prior does about as well: its expected error is "
                f"{product.relative_prior_error:.1%}, and the fleet's {product.relative_error:.1%}; {remedy}"
            )


def _read_config(file: Path) -> AgentConfig:
    tables, _ = read_proposed_task(file)
    device = {"agent": {"state": "."}, "data": {"source": "npz:records.npz", **tables.get("data", {})}}
    return config_from_tables({**cast(dict[str, Any], tables), **device}, str(file))


def _expect(config: AgentConfig, terms: MeanTerms, cell: Cell, homes: int, heard: int) -> list[Estimate]:
    """Return the estimates for a fleet of public homes."""
    products, windows = cast(Products, terms.profile), config.data.windows
    assert windows is not None  # noqa: S101 - products require them
    sums = heard * np.concatenate(
        [math.sqrt(share) * _public_block(block) for block, share in zip(products.blocks, products.shares, strict=True)]
    )
    sigma = _sigma(config, terms, cell, homes, heard)
    fleet_size = getattr(config.learner, "fleet_size")  # noqa: B009 - a key of this learner alone
    return estimate_products(Opened(products, sums, heard, sigma, windows, homes, fleet_size))


def _sigma(config: AgentConfig, terms: MeanTerms, cell: Cell, homes: int, heard: int) -> float:
    mechanism = replace(terms, cell=cell).cell_mechanism(required_budget(config))
    return float(mechanism.share(homes) * mechanism.step * heard**0.5)


def _public_block(block: object) -> Floats:
    """Return the mean of a block over homes that use exactly what is publicly known."""
    match block:
        case Curve():
            energies = np.array(block.public.homes_kwh) / 48**0.5
            level = np.minimum(energies, 2 * block.middle).mean() - block.middle
            coefficients: Floats = block.scales * np.append(level, np.zeros(block.size - 1))
            return coefficients
        case Flags():
            rules = [block.public.rules[flag].false_alarms for flag in block.flags]
            flags: Floats = np.array(rules) / block.size**0.5
            return flags
        case AnnualBins():
            bins = np.searchsorted(block.edges_kwh, block.public.homes_kwh, side="right")
            counts: Floats = np.bincount(bins, minlength=block.size) / len(bins)
            return counts
    raise NotImplementedError(f"nothing is publicly known for {type(block).__name__}: add it to this function")


def _worth_from(config: AgentConfig, terms: MeanTerms, cell: Cell, silent: float) -> dict[str, int]:
    """Return the smallest fleet, to about a fifth, for which each product that is ever worth its ε is worth it."""
    found: dict[str, int] = {}
    for homes in reversed(_FLEETS):
        heard = round(homes * (1 - silent))
        scaled = replace(cell, least=homes, most=homes, colluding=math.ceil(cell.colluding / cell.most * homes))
        if scaled.defect is not None or heard < scaled.opening_threshold(homes):
            continue
        worth = [each.name for each in _expect(config, terms, scaled, homes, heard) if is_worth_it(each, heard)]
        found.update(dict.fromkeys(worth, homes))
        if not worth:
            break
    return found
