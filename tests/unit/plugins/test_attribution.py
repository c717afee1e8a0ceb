"""Exceptions of plug-ins become their package's errors, with the line; all others stay what they are."""

import asyncio
import errno
import linecache
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sottovoce.errors import ConfigError, InternalError, PluginError, PrivacyError
from sottovoce.node import vault_process
from sottovoce.node.assemble import assemble
from sottovoce.node.faults import classify_fault
from sottovoce.plugins import LEARNER, MECHANISM, Plugin, attribution, find_plugin_error, plugin_errors

_LEARNER = Plugin(LEARNER, "odd", "elsewhere.deep:ALGORITHM", "elsewhere 1")
_MECHANISM = Plugin(MECHANISM, "stair", "steps:MECHANISM", "steps 2")


@pytest.fixture(autouse=True)
def _loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(attribution, "_loaded", [_LEARNER, _MECHANISM])
    yield
    linecache.clearcache()


def make(module: str, body: str) -> Callable[..., Any]:
    """Return a function of a module, whose second line is `body`."""
    names: dict[str, Any] = {
        "__name__": module,
        "ConfigError": ConfigError,
        "PluginError": PluginError,
        "PrivacyError": PrivacyError,
    }
    exec(compile(f"def step(*args):\n    {body}\n", f"/site/{module}.py", "exec"), names)
    function: Callable[..., Any] = names["step"]
    return function


def raise_through(*functions: Callable[..., Any]) -> Exception:
    """Return the exception that the last function raises when each function calls the next."""
    call: Callable[..., Any] = functions[-1]
    for outer in reversed(functions[:-1]):
        call = partial(outer, call)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever is raised
        call()
    return caught.value


@pytest.mark.parametrize("raised", ["ValueError('left')", "SystemExit(3)", "OSError('left')"])
def test_an_error_names_the_package_the_function_and_the_line(raised: str) -> None:
    with pytest.raises(PluginError) as caught, plugin_errors():
        make("elsewhere.other", f"raise {raised}")()
    message = str(caught.value)
    assert "learner odd of package elsewhere 1" in message
    assert "step() at /site/elsewhere.other.py line 2" in message
    assert raised.partition("(")[0] in message


def test_the_innermost_frame_of_a_plug_in_is_named_when_our_own_code_fails() -> None:
    error = raise_through(make("elsewhere", "args[0]()"), make("sottovoce.kernels", "1 / 0"))
    assert "/site/elsewhere.py line 2: division by zero" in str(find_plugin_error(error))


def test_an_error_of_our_own_is_nobody_s() -> None:
    assert find_plugin_error(raise_through(make("sottovoce.node", "1 / 0"))) is None
    with pytest.raises(ZeroDivisionError), plugin_errors():
        make("sottovoce.node", "1 / 0")()


def test_a_suspect_is_named_if_its_result_made_our_code_fail() -> None:
    with pytest.raises(PluginError, match=r"odd.*ZeroDivisionError"), plugin_errors(_LEARNER):
        make("sottovoce.node", "1 / 0")()


def test_an_expected_error_passes_unless_a_private_half_wrote_its_text() -> None:
    setting = raise_through(make("elsewhere", "raise ConfigError('learner.momentum: too large')"))
    assert find_plugin_error(setting) is None
    spent = raise_through(
        make("elsewhere", "args[0]()"), make("sottovoce.privacy.vault", "raise PrivacyError('spent')")
    )
    assert find_plugin_error(spent) is None
    foul = raise_through(make("sottovoce.privacy.vault", "args[0]()"), make("elsewhere", "raise PrivacyError('3.14')"))
    assert "3.14" not in str(find_plugin_error(foul))
    assert "PrivacyError" in str(find_plugin_error(foul))


@pytest.mark.parametrize(
    "functions",
    [
        (make("steps", "raise ValueError('record 3.14')"),),
        (make("steps", "raise PluginError('record 3.14')"),),
        (make("sottovoce.privacy.vault.vault", "args[0]()"), make("elsewhere", "raise ValueError('record 3.14')")),
        (make("elsewhere", "args[0]()"), make("sottovoce.privacy", "raise ValueError('record 3.14')")),
    ],
)
def test_a_text_that_may_contain_a_record_is_omitted(functions: tuple[Callable[..., Any], ...]) -> None:
    error = find_plugin_error(raise_through(*functions))
    assert error is not None
    assert "Error in step() at" in str(error)
    assert "3.14" not in str(error)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), MemoryError("short")]
)
def test_what_ends_a_task_or_is_short_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), plugin_errors(_LEARNER):
        raise error


def test_an_exception_that_is_not_a_defect_passes() -> None:
    with pytest.raises(ConnectionRefusedError), plugin_errors(_LEARNER, passing=(OSError,)):
        raise ConnectionRefusedError


def test_an_attributed_error_is_not_attributed_again() -> None:
    with pytest.raises(PluginError) as caught, plugin_errors(_MECHANISM), plugin_errors():
        make("elsewhere", "1 / 0")()
    assert "learner odd" in str(caught.value)
    assert find_plugin_error(caught.value) is None


def test_a_device_and_a_vault_that_cannot_start_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = make("elsewhere", "1 / 0")
    monkeypatch.setattr("sottovoce.node.assemble.check_socket", failing)
    monkeypatch.setattr("sottovoce.node.vault_process._stop_signal_socket", failing)
    config: Any = SimpleNamespace(agent=SimpleNamespace(state="."), vault=SimpleNamespace(socket="s", directory=Path()))
    for start in (lambda: assemble(config), lambda: vault_process._serve_until_stopped(config, Path("f"), 0)):
        with pytest.raises(PluginError) as caught:
            start()
        fault = classify_fault(caught.value, has_worked=False)
        assert fault is not None
        assert (fault.kind, fault.needs_a_person) == ("plug-in", True)


def test_a_shortage_in_a_plug_in_s_call_still_counts_as_transient() -> None:
    with pytest.raises(PluginError) as caught, plugin_errors():
        make("elsewhere", f"raise OSError({errno.EADDRINUSE}, 'in use')")()
    fault = classify_fault(caught.value, has_worked=True)
    assert fault is not None
    assert (fault.kind, fault.needs_a_person) == ("address", False)


def test_an_internal_error_in_a_plug_in_s_call_is_attributed() -> None:
    error = raise_through(make("elsewhere", "args[0]()"), lambda: (_ for _ in ()).throw(InternalError("a bug")))
    assert isinstance(find_plugin_error(error), PluginError)
