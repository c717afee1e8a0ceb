"""The subject of an examination: a device's configuration and the status of its running agent, if available."""

import os
import pwd
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sottovoce.agent.control import ask
from sottovoce.agent.runnable import check_readers, check_socket, check_state
from sottovoce.agent.status import SCHEMA
from sottovoce.config import AgentConfig, load
from sottovoce.doctor.finding import Finding, error_finding, ok, problem
from sottovoce.errors import ConfigError, ExitCode, NetworkError

_ANSWERS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Subject:
    """A device, or a machine without one.

    Attributes:
        file: configuration file, if one was specified.
        config: configuration; None if there is none or it cannot be used.
        state: state directory; None if unknown.
        status: status of the agent; None if no agent answers.
        now: current time of the clock, as an aware datetime.
        wrong: error that explains why the configuration cannot be used.
    """

    file: Path | None = None
    config: AgentConfig | None = None
    state: Path | None = None
    status: dict[str, Any] | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    wrong: ConfigError | None = None

    @property
    def is_readable(self) -> bool:
        """Return whether the state directory exists and this user may read it."""
        return self.state is not None and os.access(self.state / ".", os.R_OK | os.X_OK)


def subject_of(file: Path | None, state: Path | None) -> Subject:
    """Return the subject that a configuration file and a state directory describe; either may be None.

    Args:
        file: configuration file, which may be wrong or missing.
        state: state directory, which takes precedence over the one in the configuration.
    """
    config, wrong = None, None
    if file is not None:
        try:
            config = load(file)
        except ConfigError as error:
            wrong = error
    if state is None and file is not None:
        state = _read_state_directory(file) if config is None else config.agent.state
    return Subject(file, config, state, None if state is None else _status(state), wrong=wrong)


def configuration(subject: Subject) -> Iterator[Finding]:
    """Check the configuration, and that there is a state directory that this user may read."""
    if subject.wrong is not None:
        yield error_finding(subject.wrong)
    elif subject.file is not None:
        yield ok(f"{subject.file}: correct")
    if subject.state is None:
        return
    try:
        owner, file = _user_name(subject.state.stat().st_uid), subject.state.is_file()
    except PermissionError:
        owner, file = "AGENT'S-USER", False
    except OSError:
        owner, file = "", True
    if subject.config is not None:
        check_socket(subject.state)
    if file:
        check_state(subject.state)
    if subject.config is not None:
        check_readers(subject.config)
    if subject.is_readable:
        yield ok(f"{subject.state}: exists")
    elif subject.config is not None and _keeps_vault(subject.config):
        yield ok(
            f"{subject.state}: not readable by this user, who owns the separate vault; also run the doctor as user "
            f"{owner}"
        )
    else:
        yield problem(
            f"{subject.state}: this user may not read the directory",
            f"run the doctor as the owner: sudo -u {owner} sottovoce doctor",
            ExitCode.USAGE,
        )


def _keeps_vault(config: AgentConfig) -> bool:
    directory = config.vault.directory
    return directory is not None and os.access(directory / ".", os.R_OK | os.W_OK | os.X_OK)


def _status(state: Path) -> dict[str, Any] | None:
    try:
        answer = ask(state, "status", _ANSWERS_SECONDS)
    except NetworkError:
        return None
    return answer if answer.get("schema") == SCHEMA else None


def _read_state_directory(file: Path) -> Path | None:
    """Return the state directory set in an otherwise invalid configuration; None if it cannot be read."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        return Path(file.absolute().parent, tables["agent"]["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
