"""Ctrl-C while a command loads its modules ends it quietly, with the documented exit code."""

import subprocess
import sys

import pytest
from sottovoce.errors import ExitCode

pytestmark = pytest.mark.process

_INTERRUPTED_AT = """
import importlib.abc, os, signal, sys


class Interrupter(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupter())
sys.argv = {words!r}
from sottovoce.cli.main import main

main()
"""


@pytest.mark.parametrize(
    "name, words",
    [
        ("sottovoce.cli.outcome", ["testbed"]),
        ("sottovoce.cli.command", ["testbed"]),
        ("typer", ["--version"]),
        ("sottovoce.config", ["agent", "run", "--config", "absent.toml"]),
        ("numpy.linalg", ["testbed", "--transport", "memory", "--agents", "2", "--cycles", "1"]),
    ],
)
def test_an_interrupt_while_a_module_loads(name: str, words: list[str]) -> None:
    script = _INTERRUPTED_AT.format(name=name, words=["sottovoce", *words])
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stderr) == (ExitCode.INTERRUPTED, "sottovoce: interrupted\n")
