"""Accountant in isolation: its names, and the few modules that it loads."""

import subprocess
import sys

import pytest
from sottovoce import calculator
from sottovoce.privacy import accounting

HEAVY = ("aiomqtt", "asyncio", "cryptography", "google.protobuf", "grpc", "msgspec", "rich", "sqlite3", "ssl", "typer")


@pytest.mark.process
def test_the_accountant_loads_numpy_and_no_other_dependency() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)  # a measuring of coverage loads some\n"
        "from sottovoce.calculator import calibrate, compose\n"
        "calibrate('gaussian', epsilon=1.0, delta=1e-5, releases=100)\n"
        "compose('gaussian:sigma=1,rate=0.01,count=1000', delta=1e-5)\n"
        f"print([name for name in {HEAVY!r} if name in set(sys.modules) - before])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"


def test_public_names_match_the_declared_list() -> None:
    assert all(callable(getattr(calculator, name)) for name in calculator.__all__)
    with pytest.raises(AttributeError, match="'compound'"):
        calculator.compound  # noqa: B018


def test_names_at_their_earlier_place_say_where_they_are() -> None:
    for name in calculator.__all__:
        with pytest.deprecated_call(match="sottovoce.calculator"):
            assert getattr(accounting, name) is getattr(calculator, name)
    with pytest.raises(AttributeError, match="'compound'"):
        accounting.compound  # noqa: B018
