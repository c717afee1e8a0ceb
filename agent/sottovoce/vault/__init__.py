"""The only interface to private records: it accepts records with declared bounds and returns charged releases.

Other packages import from this package and from the few submodules listed in pyproject.toml: the terms, and modules
that only some devices use. Learners, wire and transport must not import from this package.
"""

from sottovoce.accounting.gaussian import gaussian_mu
from sottovoce.vault.budget import Budget, LimitSpending, PeriodSpending, Spending
from sottovoce.vault.chain import Head, LedgerPosition
from sottovoce.vault.clipped_sum import calibrate, clipped_sum_mu
from sottovoce.vault.clocks import TrustedDays
from sottovoce.vault.construction import build
from sottovoce.vault.front import VaultInterface
from sottovoce.vault.growing_records import GrowingRecords
from sottovoce.vault.guarantee import Scaling
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.ledger_binding import check_budget, check_ledger_exists, check_owner
from sottovoce.vault.limits import MIN_DAYS, RenewalInterval
from sottovoce.vault.mandate import Mandate
from sottovoce.vault.noise import OperatingSystemNoise, SeededNoise
from sottovoce.vault.observer import Observer
from sottovoce.vault.policy import Policy, read_policy
from sottovoce.vault.terms.base import Terms
from sottovoce.vault.vault import Vault
from sottovoce.vault.witnesses import Witness

__all__ = [
    "MIN_DAYS",
    "Budget",
    "GrowingRecords",
    "Head",
    "Ledger",
    "LedgerPosition",
    "LimitSpending",
    "Mandate",
    "Observer",
    "OperatingSystemNoise",
    "PeriodSpending",
    "Policy",
    "RenewalInterval",
    "Scaling",
    "SeededNoise",
    "Spending",
    "Terms",
    "TrustedDays",
    "Vault",
    "VaultInterface",
    "Witness",
    "build",
    "calibrate",
    "check_budget",
    "check_ledger_exists",
    "check_owner",
    "clipped_sum_mu",
    "gaussian_mu",
    "read_policy",
]
