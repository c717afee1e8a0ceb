"""Limits of the system: each is named with its remedy, at the start and when it is reached."""

import errno
import resource
import subprocess
from pathlib import Path

import pytest
from sottovoce.errors import ConfigError, ExitCode, IdentityError
from sottovoce.fleet import files
from sottovoce.limits import check_limits, describe_shortage
from sottovoce.node.faults import classify_fault

from tests.support.processes import SOTTOVOCE


def limit(monkeypatch: pytest.MonkeyPatch, kind: int, soft: int) -> None:
    """Set one limit; there are no others."""
    infinite = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda asked: (soft if asked == kind else infinite, infinite))


@pytest.mark.parametrize(
    "kind, soft, name",
    [(resource.RLIMIT_NOFILE, 63, "RLIMIT_NOFILE"), (resource.RLIMIT_AS, 2**29 - 1, "RLIMIT_AS")],
)
def test_a_limit_under_which_nothing_works_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: int, soft: int, name: str
) -> None:
    limit(monkeypatch, kind, soft)
    with pytest.raises(ConfigError, match=name):
        check_limits()
    limit(monkeypatch, kind, soft + 1)
    check_limits()


@pytest.mark.parametrize(
    "error, kind, name",
    [
        (OSError(errno.EMFILE, "Too many open files"), resource.RLIMIT_NOFILE, "RLIMIT_NOFILE"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), resource.RLIMIT_AS, "RLIMIT_AS"),
        (MemoryError("shape (60, 12)"), resource.RLIMIT_AS, "RLIMIT_AS"),
        (OSError(errno.ENFILE, "Too many open files in system"), resource.RLIMIT_CORE, "fs.file-max"),
    ],
)
def test_a_shortage_names_the_limit_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, kind: int, name: str
) -> None:
    limit(monkeypatch, kind, 2**30)
    fault = classify_fault(error, has_worked=False)
    assert fault is not None
    assert name in fault.reason
    assert "60" not in fault.reason
    assert describe_shortage(ValueError()) is None


def test_a_file_that_cannot_be_opened_for_lack_of_descriptors_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(IdentityError) as caught:
        files.read(tmp_path / "tls.pem")
    assert "RLIMIT_NOFILE" in str(caught.value)
    assert "owner" not in str(caught.value)


@pytest.mark.process
@pytest.mark.parametrize("words, name", [("--as=60000000", "RLIMIT_AS"), ("--nofile=12", "RLIMIT_NOFILE")])
def test_an_agent_says_in_one_line_which_limit_is_too_low(tmp_path: Path, words: str, name: str) -> None:
    command = ["prlimit", words, SOTTOVOCE, "agent", "run", "--config", str(tmp_path / "agent.toml")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == ExitCode.CONFIGURATION
    (line,) = ended.stderr.splitlines()
    assert name in line
