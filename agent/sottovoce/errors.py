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
    """The command line does not make sense."""

    exit_code = ExitCode.USAGE


class ConfigError(SottovoceError):
    """A configuration file, key or value is wrong."""

    exit_code = ExitCode.CONFIGURATION


class DataError(SottovoceError):
    """A data set or a stored state cannot be read, or breaks its declared bounds."""

    exit_code = ExitCode.DATA


class PrivacyError(SottovoceError):
    """A guarantee that is unproved, impossible, or already spent."""

    exit_code = ExitCode.PRIVACY


class LedgerError(PrivacyError):
    """The ledger is missing, damaged, in use, or belongs to another device or budget."""


class LedgerUnwritable(LedgerError):
    """The ledger's disk is full, fails, or may only be read, or memory is short: nothing was released."""


class TaskRefused(PrivacyError):
    """A task of the fleet that this device does not take up; it continues with its present one."""


class VaultAway(PrivacyError):
    """The vault's process does not answer."""


class IdentityError(SottovoceError):
    """A key or certificate is missing, expired, malformed, or not of this fleet."""

    exit_code = ExitCode.IDENTITY


class ClockError(IdentityError):
    """The clock stands before a time that this device has been at."""


class NetworkError(SottovoceError):
    """An address cannot be used, or no one can be reached."""

    exit_code = ExitCode.NETWORK


class MessageRefused(SottovoceError):
    """A received message was refused and changed nothing.

    Attributes:
        reason: a stable word for counters, for example `signature` or `shape`.
    """

    exit_code = ExitCode.NETWORK

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason


class DiskReadOnly(SottovoceError):
    """A disk is mounted read-only; once it no longer is, a service sees that only after its process is restarted."""

    exit_code = ExitCode.AGAIN


class PluginError(SottovoceError):
    """A package that brings a plug-in is broken, or two bring one of the same name."""

    exit_code = ExitCode.PLUGIN


class InternalError(SottovoceError):
    """A defect in Sottovoce."""
