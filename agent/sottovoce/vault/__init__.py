"""The only door: records with declared bounds go in, charged releases come out.

Other packages import from here and from nowhere inside; learners, wire and transport not even from here.
"""

from sottovoce.accounting.gaussian import gaussian_mu
from sottovoce.vault.account import Account, account_of, audited
from sottovoce.vault.budget import Budget, Spending
from sottovoce.vault.chain import Head, Tip
from sottovoce.vault.clipped_sum import calibrate
from sottovoce.vault.construction import ChainTerms, RecordTerms, StreamTerms, Terms, build
from sottovoce.vault.front import VaultFront
from sottovoce.vault.guarantee import Scaling
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import OperatingSystemNoise, SeededNoise
from sottovoce.vault.scaled_noise import ScaledTerms, build_scaled
from sottovoce.vault.simulated_records import simulate
from sottovoce.vault.vault import Vault
from sottovoce.vault.walk_room import WalkTerms

__all__ = [
    "Account",
    "Budget",
    "ChainTerms",
    "Head",
    "Ledger",
    "OperatingSystemNoise",
    "RecordTerms",
    "ScaledTerms",
    "Scaling",
    "SeededNoise",
    "Spending",
    "StreamTerms",
    "Terms",
    "Tip",
    "Vault",
    "VaultFront",
    "WalkTerms",
    "account_of",
    "audited",
    "build",
    "build_scaled",
    "calibrate",
    "gaussian_mu",
    "simulate",
]
