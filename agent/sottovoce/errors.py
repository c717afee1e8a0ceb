"""All exceptions of Sottovoce, and the exit code with which each ends a command.

SottovoceError                  8
├── UsageError                  2   the command line does not make sense
├── ConfigError                 3   a configuration file or key
├── DataError                   4   a data set, a reading, or a stored state that cannot be read
├── PrivacyError                5   an unproved or impossible guarantee
│   ├── LedgerError             5   the ledger is missing, damaged, locked, or belongs to another device
│   │   └── LedgerUnwritable    5   its disk is full or fails
│   ├── TaskRefused             5   this device does not take up its fleet's task
│   └── VaultAway               5   the vault's process does not answer
├── IdentityError               6   keys, certificates, trust
│   └── ClockError              6   the clock stands before a time that this device has been at
├── NetworkError                7   an address, a peer, a broker
├── MessageRefused              7   one received message was refused; the state did not change
├── PluginError                 9   a package that brings a plug-in is broken
├── DiskReadOnly               75   a disk is mounted read-only, which only a new process sees the end of
└── InternalError               8   a defect in Sottovoce

A message names the thing at fault and the remedy. It never carries a value read from a record.
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """The exit codes of the command `sottovoce`; one documented page each in docs/reference/exit-codes.md."""

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
    """Base class of all exceptions."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL


class UsageError(SottovoceError):
    """Error of a command line that does not make sense."""

    exit_code = ExitCode.USAGE


class ConfigError(SottovoceError):
    """Error of a configuration file, key or value."""

    exit_code = ExitCode.CONFIGURATION


class DataError(SottovoceError):
    """Error of a data set or a stored state that cannot be read, or breaks its declared bounds."""

    exit_code = ExitCode.DATA


class PrivacyError(SottovoceError):
    """Error of a guarantee that is unproved, impossible, or already spent."""

    exit_code = ExitCode.PRIVACY


class LedgerError(PrivacyError):
    """Error of a ledger that is missing, damaged, in use, or belongs to another device or budget."""


class LedgerUnwritable(LedgerError):
    """Error of a ledger's disk that is full, fails, or is read-only, or of short memory: nothing was released."""


class TaskRefused(PrivacyError):
    """Refusal of a fleet task that this device does not take up; it continues with its present one."""


class VaultAway(PrivacyError):
    """Error of a vault process that does not answer."""


class IdentityError(SottovoceError):
    """Error of a key or certificate that is missing, expired, malformed, or not of this fleet."""

    exit_code = ExitCode.IDENTITY


class ClockError(IdentityError):
    """Error of a clock with a time earlier than one that this device has been at."""


class NetworkError(SottovoceError):
    """Error of an address that cannot be used, or of peers that cannot be reached."""

    exit_code = ExitCode.NETWORK


class MessageRefused(SottovoceError):
    """Refusal of a received message, which changed nothing.

    Attributes:
        reason: a stable word for counters, for example `signature` or `shape`.
    """

    exit_code = ExitCode.NETWORK

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


class DiskReadOnly(SottovoceError):
    """Error of a disk mounted read-only; a service sees the end of that only after its process is restarted."""

    exit_code = ExitCode.AGAIN


class PluginError(SottovoceError):
    """Error of a package that brings a plug-in and is broken, or of two that bring plug-ins of one name."""

    exit_code = ExitCode.PLUGIN


class InternalError(SottovoceError):
    """Error that is a defect in Sottovoce."""
