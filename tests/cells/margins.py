"""Margins between ε and what attackers reach: with the promised shares, with one more, and with all other members'."""

import math
from dataclasses import dataclass, replace

import numpy as np
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.accounting.events import CellSum
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget
from sottovoce_lab.auditor.games.canaries import play_canary_game
from sottovoce_lab.auditor.targets.cells import CellMeans

CELL = Cell(8, 8, 2, 0.7)
_DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class Margin:
    """Margin between ε and what one attacker reaches.

    Attributes:
        extra_shares: number of known noise shares beyond the promised number.
        claimed: ε of a sum with this many fewer honest shares.
        bound: lower bound of ε at 95 % confidence.
    """

    extra_shares: int
    claimed: float
    bound: float


def measure_margin(extra_shares: int, trials: int, epsilon: float = 4.0, seed: int = 0) -> Margin:
    """Play `trials` devices, each with or without a canary, against an attacker that has `extra_shares` more shares."""
    terms, budget = MeanTerms("audited", Profile(1, 1.0), CELL), Budget(epsilon, _DELTA, "device", "add-remove")
    subject = CellMeans(terms, budget, extra_colluding=extra_shares)
    event = subject.terms.cell_mechanism(subject.budget).event(CELL.least)
    assert isinstance(event, CellSum)
    fewer = replace(event, honest=event.honest - extra_shares)
    claimed = gaussian_epsilon(math.sqrt(fewer.mu_squared), _DELTA)
    findings = play_canary_game(subject, claimed, trials, np.random.default_rng(seed), 0.05, 0.05)
    bound = max(finding.epsilon_lower_bound or 0.0 for finding in findings)
    return Margin(extra_shares, claimed, bound)


def measure_margins(trials: int) -> list[Margin]:
    """Measure the attacker that ε allows for, one with one more share, and all other members together."""
    return [measure_margin(extra_shares, trials) for extra_shares in (0, 1, CELL.honest_shares(CELL.least) - 1)]
