"""Errors that another package's learner causes outside its own code: they name the package, or what is missing."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.cli.outcome import run_to_exit_code
from sottovoce.errors import ExitCode, PluginError, UsageError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.net.wire import encode
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.plugin import PlainStateCodec
from sottovoce.plugins import LEARNER
from sottovoce_lab.auditor import audit

from tests.unit.testing.conftest import Installed

_PAYLOADS = "payloads={ClassSum.kind: lambda: PlainCodec(ClassSum)}"


@pytest.mark.parametrize(
    "change, number, words",
    [
        pytest.param(
            lambda code: code.replace(_PAYLOADS, "payloads={}"), 0.0, "payloads of your Algorithm", id="codec"
        ),
        pytest.param(str, np.nan, "every peer would refuse", id="not finite"),
    ],
)
def test_a_message_that_cannot_be_sent_names_its_package(
    installed: Installed, change: Callable[[str], str], number: float, words: str
) -> None:
    installed(LEARNER, "learner", "ALGORITHM", change)
    module = ALGORITHMS["class-sums"].parts.__module__
    message: Any = sys.modules[module].ClassSum(np.array([number]))
    with pytest.raises(PluginError, match=words) as raised:
        encode(message)
    assert "package class-sums 1.0" in str(raised.value)
    assert "class-sums-message/1" in str(raised.value)


def test_a_state_that_a_learner_cannot_restore_names_its_package(installed: Installed, tmp_path: Path) -> None:
    """The file is sound; the package gave the array another length in the initial state than later."""
    installed(
        LEARNER,
        "learner",
        "ALGORITHM",
        lambda code: code.replace(
            "    known: dict", "    own: np.ndarray = field(default_factory=lambda: np.zeros(0))\n    known: dict"
        ),
    )
    module: Any = sys.modules[ALGORITHMS["class-sums"].parts.__module__]
    learner = module.ClassSums("a", 3, "class-sums", 1.0)
    store = SqliteStore(tmp_path, learner, PlainStateCodec(learner.initial_state()), 0)
    store.commit(module.ClassSumsState(own=np.zeros(3)), [], [], None)
    with pytest.raises(PluginError, match="own") as raised:
        store.load()
    assert all(words in str(raised.value) for words in ("package class-sums 1.0", "initial_state()", "state.db"))
    store.close()


def test_an_audit_that_cannot_play_a_learner_is_no_bug(installed: Installed) -> None:
    installed(LEARNER, "learner", "ALGORITHM", str)
    with pytest.raises(UsageError, match="class-sums"):
        audit("learner", "class-sums", trials=10)


@pytest.mark.parametrize("quoted", ["", "; set SOTTOVOCE_TRACEBACK=1 to print the traceback"])
def test_a_testbed_that_quotes_an_agent_s_error_gives_the_hint_once(
    capsys: pytest.CaptureFixture[str], quoted: str
) -> None:
    def fail() -> None:
        raise PluginError(f"learner class-sums of package class-sums 1.0: broken{quoted}")

    assert run_to_exit_code(fail) == ExitCode.PLUGIN
    assert capsys.readouterr().err.count("SOTTOVOCE_TRACEBACK") == 1
