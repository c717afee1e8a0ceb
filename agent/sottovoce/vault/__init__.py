"""The only door: records with declared bounds go in, charged releases come out.

Other packages import from here and from nowhere inside; learners, wire and transport not even from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.accounting.gaussian import gaussian_mu
from sottovoce.vault.belonging import check_budget, check_owner, check_there
from sottovoce.vault.budget import Budget, Spending
from sottovoce.vault.chain import Head, Tip
from sottovoce.vault.clipped_sum import calibrate
from sottovoce.vault.construction import build
from sottovoce.vault.front import VaultFront
from sottovoce.vault.guarantee import Scaling
from sottovoce.vault.keepers import Keeper
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import OperatingSystemNoise, SeededNoise
from sottovoce.vault.observer import Observer
from sottovoce.vault.rooms.terms import Terms
from sottovoce.vault.vault import Vault

if TYPE_CHECKING:
    from sottovoce.vault.account import Account, account_of, audited
    from sottovoce.vault.ledger_file import log_is_damaged
    from sottovoce.vault.lemmas import smooth
    from sottovoce.vault.programs.chain_steps import StepSizes
    from sottovoce.vault.rooms.chains import ChainTerms, PublishedChainTerms
    from sottovoce.vault.rooms.gradients import GradientTerms
    from sottovoce.vault.rooms.means import MeanTerms
    from sottovoce.vault.rooms.normalised import NormalisedTerms
    from sottovoce.vault.rooms.published import Claim, PublishedTerms
    from sottovoce.vault.rooms.q_chains import QChainTerms
    from sottovoce.vault.rooms.records import RecordTerms
    from sottovoce.vault.rooms.streams import StreamTerms
    from sottovoce.vault.rooms.walks import WalkTerms
    from sottovoce.vault.sampling import FixedSize, WithReplacement
    from sottovoce.vault.simulated_records import simulate

__all__ = [
    "Account",
    "Budget",
    "ChainTerms",
    "Claim",
    "FixedSize",
    "GradientTerms",
    "Head",
    "Keeper",
    "Ledger",
    "MeanTerms",
    "NormalisedTerms",
    "Observer",
    "OperatingSystemNoise",
    "PublishedChainTerms",
    "PublishedTerms",
    "QChainTerms",
    "RecordTerms",
    "Scaling",
    "SeededNoise",
    "Spending",
    "StepSizes",
    "StreamTerms",
    "Terms",
    "Tip",
    "Vault",
    "VaultFront",
    "WalkTerms",
    "WithReplacement",
    "account_of",
    "audited",
    "build",
    "calibrate",
    "check_budget",
    "check_owner",
    "check_there",
    "gaussian_mu",
    "log_is_damaged",
    "simulate",
    "smooth",
]

_WHERE = {  # what not every device uses is imported when it is asked for
    "Account": "account",
    "ChainTerms": "rooms.chains",
    "Claim": "rooms.published",
    "FixedSize": "sampling",
    "GradientTerms": "rooms.gradients",
    "MeanTerms": "rooms.means",
    "NormalisedTerms": "rooms.normalised",
    "PublishedChainTerms": "rooms.chains",
    "PublishedTerms": "rooms.published",
    "QChainTerms": "rooms.q_chains",
    "RecordTerms": "rooms.records",
    "StepSizes": "programs.chain_steps",
    "StreamTerms": "rooms.streams",
    "WalkTerms": "rooms.walks",
    "WithReplacement": "sampling",
    "account_of": "account",
    "audited": "account",
    "log_is_damaged": "ledger_file",
    "simulate": "simulated_records",
    "smooth": "lemmas",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
