"""The package's public names, for programs that `import sottovoce`; see docs/reference/library.md.

The package imports this module when a public name is first used, so a device's commands load only what they need.
"""

from sottovoce.calculator.calibration import Calibrated, calibrate
from sottovoce.calculator.composition import Composed
from sottovoce.calculator.release_notation import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Pure,
    compose,
)
from sottovoce.data import Records
from sottovoce.data.records import check_records
from sottovoce.embedded import Agent, AgentEvent
from sottovoce.errors import (
    ClockError,
    ConfigError,
    DataError,
    DiskReadOnly,
    ExitCode,
    IdentityError,
    InternalError,
    LedgerError,
    MessageRefused,
    NetworkError,
    PluginError,
    PrivacyError,
    SottovoceError,
    TaskRefused,
    UsageError,
    VaultAway,
)
from sottovoce.kernels.registry import kernel_named
from sottovoce.learning.learners import Learner
from sottovoce.learning.registry import Algorithm
from sottovoce.net.transports import Peer, Transport
from sottovoce.net.transports.memory import Exchange, MemoryTransport
from sottovoce.privacy.api import PrivacyStatement, Query, Refused, Release
from sottovoce.privacy.terms import build as build_vault
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault

__all__ = [
    "Agent",
    "AgentEvent",
    "Algorithm",
    "Budget",
    "Calibrated",
    "ClockError",
    "Composed",
    "ConfigError",
    "DataError",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiskReadOnly",
    "Exchange",
    "ExitCode",
    "Gaussian",
    "GradientTerms",
    "IdentityError",
    "InternalError",
    "Laplace",
    "Learner",
    "Ledger",
    "LedgerError",
    "MemoryTransport",
    "MessageRefused",
    "NetworkError",
    "OperatingSystemNoise",
    "Peer",
    "PluginError",
    "PrivacyError",
    "PrivacyStatement",
    "Pure",
    "Query",
    "Records",
    "Refused",
    "Release",
    "SottovoceError",
    "TaskRefused",
    "Transport",
    "UsageError",
    "Vault",
    "VaultAway",
    "build_vault",
    "calibrate",
    "check_records",
    "compose",
    "kernel_named",
]
