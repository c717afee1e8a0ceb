"""Subject of an examination: a device's configuration and the status of its running agent, if available."""

import os
import pwd
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sottovoce.config import AgentConfig, load
from sottovoce.doctor.finding import Finding, error_finding, ok, problem
from sottovoce.errors import ConfigError, ExitCode
from sottovoce.node.control import ask_status
from sottovoce.node.start_checks import check_readers, check_socket, check_state

_STATUS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Subject:
    """A device, or a machine without one.

    Attributes:
        file: configuration file, if one was specified.
        config: configuration; None if there is none or it cannot be used.
        state: state directory; None if unknown.
        status: status of the agent; None if no agent answers.
        now: current time of the clock, as an aware datetime.
        config_error: error that explains why the configuration cannot be used.
    """

    file: Path | None = None
    config: AgentConfig | None = None
    state: Path | None = None
    status: dict[str, Any] | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    config_error: ConfigError | None = None

    @property
    def is_readable(self) -> bool:
        """Return whether the state directory exists and this user may read it."""
        return self.state is not None and os.access(self.state / ".", os.R_OK | os.X_OK)


def load_subject(file: Path | None, state: Path | None) -> Subject:
    """Load a device's configuration and status from its configuration file and state directory; either may be None.

    Args:
        file: configuration file, which may be invalid or missing.
        state: state directory, which takes precedence over the one in the configuration.
    """
    config, config_error = None, None
    if file is not None:
        try:
            config = load(file)
        except ConfigError as error:
            config_error = error
    if state is None and file is not None:
        state = _read_state_directory(file) if config is None else config.agent.state
    return Subject(
        file, config, state, None if state is None else ask_status(state, _STATUS_SECONDS), config_error=config_error
    )


def configuration(subject: Subject) -> Iterator[Finding]:
    """Check the configuration, and that there is a state directory that this user may read."""
    if subject.config_error is not None:
        yield error_finding(subject.config_error)
    elif subject.file is not None:
        yield ok(f"{subject.file}: correct")
    if subject.state is None:
        return
    try:
        owner, is_file = _user_name(subject.state.stat().st_uid), subject.state.is_file()
    except PermissionError:
        owner, is_file = "AGENT_USER", False
    except OSError:
        owner, is_file = "", True
    if subject.config is not None:
        check_socket(subject.state)
    if is_file:
        check_state(subject.state)
    if subject.config is not None:
        check_readers(subject.config)
    if subject.is_readable:
        yield ok(f"{subject.state}: exists")
    elif subject.config is not None and _owns_vault(subject.config):
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


def _owns_vault(config: AgentConfig) -> bool:
    directory = config.vault.directory
    return directory is not None and os.access(directory / ".", os.R_OK | os.W_OK | os.X_OK)


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
