"""The only interface to private records: it accepts records with declared bounds and returns charged releases.

Other packages import from this package and from the few submodules listed in pyproject.toml: the terms, and modules
that only some devices use. Learners, wire and transport must not import from this package.
"""

from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.vault.budget import Budget, LimitSpending, PeriodSpending, Spending
from sottovoce.privacy.vault.chain import Head, LedgerPosition
from sottovoce.privacy.vault.clipped_sum import calibrate, clipped_sum_mu
from sottovoce.privacy.vault.clocks import TrustedDays
from sottovoce.privacy.vault.construction import build
from sottovoce.privacy.vault.front import VaultInterface
from sottovoce.privacy.vault.growing_records import GrowingRecords
from sottovoce.privacy.vault.guarantee import Scaling
from sottovoce.privacy.vault.ledger import Ledger
from sottovoce.privacy.vault.ledger_binding import check_budget, check_ledger_exists, check_owner
from sottovoce.privacy.vault.limits import MIN_DAYS, RenewalInterval
from sottovoce.privacy.vault.mandate import Mandate
from sottovoce.privacy.vault.noise import OperatingSystemNoise, SeededNoise
from sottovoce.privacy.vault.observer import Observer
from sottovoce.privacy.vault.policy import Policy, read_policy
from sottovoce.privacy.vault.terms.base import Terms
from sottovoce.privacy.vault.vault import Vault
from sottovoce.privacy.vault.witnesses import Witness

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
