"""Guarded calls: a plug-in's exceptions become its package's errors, and program exits pass."""

import asyncio
from pathlib import Path

import pytest
from sottovoce.errors import ConfigError, PluginError, PrivacyError
from sottovoce.plugins import LEARNER, MECHANISM, Plugin, attribute_to_plugin, await_guarded, guarded, guarded_proxy

_LEARNER = Plugin(LEARNER, "odd", "elsewhere:ALGORITHM", "elsewhere 1")
_MECHANISM = Plugin(MECHANISM, "stair", "steps:MECHANISM", "steps 2")


class _OddError(BaseException):
    """An exception that is not caught by mistake."""


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), _OddError("no"), MemoryError("no")])
def test_a_plugin_s_exception_becomes_its_package_s_error(error: BaseException) -> None:
    with (
        pytest.raises(
            PluginError, match=rf"learner odd of package elsewhere 1: step\(\) failed: {type(error).__name__}"
        ),
        guarded(_LEARNER, "step()"),
    ):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), ConfigError("no")])
def test_program_exits_and_own_errors_pass(error: BaseException) -> None:
    with pytest.raises(type(error)), guarded(_LEARNER, "step()"):
        raise error


def test_an_exception_that_is_not_a_defect_passes() -> None:
    with pytest.raises(OSError, match="away"), guarded(_LEARNER, "step()", passing=(OSError,)):
        raise OSError("away")


def test_exception_text_is_not_printed_for_kinds_that_read_records() -> None:
    with pytest.raises(PluginError, match="ValueError") as exc_info, guarded(_MECHANISM, "draw()"):
        raise ValueError("record 3.14159")
    assert "3.14159" not in str(exc_info.value)


async def test_a_coroutine_receives_its_results_and_its_cancellation() -> None:
    handled: list[str] = []

    async def work(seconds: float) -> int:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            handled.append("cancelled")
            raise
        return 7

    assert await await_guarded(_LEARNER, "work()", work(0)) == 7
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await await_guarded(_LEARNER, "work()", work(60))
    assert handled == ["cancelled"]


async def test_an_error_after_a_pause_is_also_the_package_s() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise _OddError("no")

    with pytest.raises(PluginError, match=r"work\(\) failed: _OddError: no"):
        await await_guarded(_LEARNER, "work()", work())


def test_a_proxy_behaves_like_its_object_and_guards_its_methods() -> None:
    class Thing:
        size = 3

        def half(self, of: int) -> float:
            return of / self.size

    thing = Thing()
    stand_in = guarded_proxy(_LEARNER, thing)
    assert (stand_in.size, stand_in.half(6), isinstance(stand_in, Thing)) == (3, 2.0, True)
    thing.size = 0
    with pytest.raises(PluginError, match=r"Thing\.half\(\) failed: ZeroDivisionError"):
        stand_in.half(6)


def test_an_exception_outside_the_guard_belongs_to_the_package_that_raised_it(tmp_path: Path) -> None:
    with guarded(_LEARNER, "step()"):
        pass
    code = compile("def late():\n    raise KeyError('left')\n", str(tmp_path / "elsewhere.py"), "exec")
    names: dict[str, object] = {"__name__": "elsewhere.deep"}
    exec(code, names)
    with pytest.raises(KeyError) as exc_info:
        names["late"]()  # type: ignore[operator]
    result = attribute_to_plugin(exc_info.value)
    assert result is not None
    assert f"late() failed at {tmp_path / 'elsewhere.py'} line 2: KeyError" in str(result)


def test_the_vault_s_own_error_keeps_its_type() -> None:
    with pytest.raises(PrivacyError, match="spent"), guarded(_LEARNER, "step()"):
        raise PrivacyError("spent")
