"""The only interface to private records: it accepts records with declared bounds and returns charged releases.

Code outside `privacy` imports from this package, from the terms and from the accounting. The import contracts in
pyproject.toml list each exception. Learners, wire and transport must not import from this package.
"""

from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.ledger.binding import check_budget, check_ledger_exists, check_owner
from sottovoce.privacy.ledger.budget import Budget, LimitSpending, PeriodSpending, Spending
from sottovoce.privacy.ledger.chain import Head, LedgerPosition
from sottovoce.privacy.ledger.clocks import TrustedDays
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.ledger.limits import MIN_DAYS, RenewalInterval
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.ledger.policy import Policy, read_policy
from sottovoce.privacy.ledger.witnesses import Witness
from sottovoce.privacy.mechanisms.clipped_sum import calibrate, clipped_sum_mu
from sottovoce.privacy.mechanisms.noise import OperatingSystemNoise, SeededNoise
from sottovoce.privacy.vault.front import VaultInterface
from sottovoce.privacy.vault.growing_records import GrowingRecords
from sottovoce.privacy.vault.observer import Observer
from sottovoce.privacy.vault.vault import Vault

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
    "SeededNoise",
    "Spending",
    "TrustedDays",
    "Vault",
    "VaultInterface",
    "Witness",
    "calibrate",
    "check_budget",
    "check_ledger_exists",
    "check_owner",
    "clipped_sum_mu",
    "gaussian_mu",
    "read_policy",
]
