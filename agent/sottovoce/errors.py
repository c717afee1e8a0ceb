"""All Sottovoce exceptions, and the exit code of a command that fails with each of them.

SottovoceError                  8
├── UsageError                  2   the command line is invalid
├── ConfigError                 3   a configuration file or key is invalid
├── DataError                   4   a data set, a reading, or stored state cannot be read
├── PrivacyError                5   a guarantee is unproved or impossible
│   ├── LedgerError             5   the ledger is missing, corrupt, locked, or belongs to another device
│   │   └── LedgerUnwritable    5   the ledger's disk is full or failing
│   ├── TaskRefused             5   this device does not accept its fleet's task
│   └── VaultAway               5   the vault process does not answer
├── IdentityError               6   a key or certificate is invalid or not trusted
│   └── ClockError              6   the clock is earlier than a time that this device has already seen
├── NetworkError                7   an address, peer or broker cannot be used or reached
├── MessageRefused              7   one received message was refused; the state did not change
├── PluginError                 9   a package that provides a plug-in is broken
├── DiskReadOnly               75   a disk is mounted read-only; only a restarted process can detect a remount
└── InternalError               8   there is a defect in Sottovoce

An error message describes the problem and the remedy. Messages never contain a value read from a record.
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of the `sottovoce` command; docs/reference/exit-codes.md says what each of them means."""

    DONE = 0
    USAGE = 2
    CONFIGURATION = 3
    DATA = 4
    PRIVACY = 5
    IDENTITY = 6
    NETWORK = 7
    INTERNAL = 8
    PLUGIN = 9
    AGAIN = 75
    INTERRUPTED = 130


class SottovoceError(Exception):
    """Base class for all Sottovoce exceptions."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL


class UsageError(SottovoceError):
    """Raised if a command line is invalid."""

    exit_code = ExitCode.USAGE


class ConfigError(SottovoceError):
    """Raised if a configuration file, key or value is invalid."""

    exit_code = ExitCode.CONFIGURATION


class DataError(SottovoceError):
    """Raised if a data set or stored state cannot be read or violates its declared bounds."""

    exit_code = ExitCode.DATA


class PrivacyError(SottovoceError):
    """Raised if a guarantee is unproved or impossible, or if its budget is already spent."""

    exit_code = ExitCode.PRIVACY


class LedgerError(PrivacyError):
    """Raised if a ledger is missing, corrupt or in use, or belongs to another device or budget."""


class LedgerUnwritable(LedgerError):
    """Raised if a ledger's disk is full, failing or read-only, or if memory is short; nothing was released."""


class TaskRefused(PrivacyError):
    """Raised if this device does not accept a fleet task; the device continues with its current task."""


class VaultAway(PrivacyError):
    """Raised if the vault process does not answer."""


class IdentityError(SottovoceError):
    """Raised if a key or certificate is missing, expired, malformed, or from another fleet."""

    exit_code = ExitCode.IDENTITY


class ClockError(IdentityError):
    """Raised if the clock is earlier than a time that this device has already seen."""


class NetworkError(SottovoceError):
    """Raised if an address cannot be used or peers cannot be reached."""

    exit_code = ExitCode.NETWORK


class MessageRefused(SottovoceError):
    """Raised if a received message is refused; the message has not changed any state.

    Attributes:
        reason: a stable keyword for counters, for example `signature` or `shape`.
    """

    exit_code = ExitCode.NETWORK

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


class DiskReadOnly(SottovoceError):
    """Raised if a disk is mounted read-only; the service must restart to detect that the disk is writable again."""

    exit_code = ExitCode.AGAIN


class PluginError(SottovoceError):
    """Raised if a package that provides a plug-in is broken, or two packages provide plug-ins with the same name."""

    exit_code = ExitCode.PLUGIN


class InternalError(SottovoceError):
    """Raised for a defect in Sottovoce."""
