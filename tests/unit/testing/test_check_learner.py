"""Contract suite for learners: it passes for our own, and finds each defect of a broken one."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from sottovoce.learning.registry import ALGORITHMS, loaded_algorithms
from sottovoce.plugins import LEARNER
from sottovoce.testing import check_learner

from tests.unit.testing.conftest import Installed

_SETTINGS: dict[str, dict[str, Any]] = {"pdsl": {"learner": {"shapley": "cosine"}}}
_COMBINED = "        mixed = work.mixing.average(work.model, work.first(0))\n"
_WRAPPED = """
from dataclasses import replace as _replace
import numpy as np
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import Ask, Progress, PublishModel, Received, Send, SetTimer
from sottovoce.privacy.api import Query

class _Learner:
    def __init__(self, inner):
        self._inner = inner
    def __getattr__(self, name):
        return getattr(self._inner, name)
    def on(self, state, event, now):
        before = state
        state, effects = self._inner.on(state, event, now)
        {body}
    {more}

class _Codec:
    def __init__(self, inner):
        self._inner = inner
    def __getattr__(self, name):
        return getattr(self._inner, name)
    {codec}

def _parts(config, public):
    family = _OWN.parts(config, public)
    def learner(*args):
        inner, codec = family.learner(*args)
        return _Learner(inner), _Codec(codec)
    return _replace(family, learner=learner)

_OWN = ALGORITHM
ALGORITHM = _replace(ALGORITHM, parts=_parts)
"""


def wrapped(body: str = "return state, effects", more: str = "", codec: str = "") -> Callable[[str], str]:
    return lambda code: code + _WRAPPED.format(body=body, more=more or "pass", codec=codec or "pass")


def combined(change: str) -> Callable[[str], str]:
    return lambda code: code.replace(_COMBINED, _COMBINED.rstrip("\n") + change + "\n")


BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "no-effects": (wrapped("return state"), r"on\(\) returned"),
    "no-list": (wrapped("return state, tuple(effects)"), r"on\(\) returned"),
    "strange-effect": (wrapped("return state, [*effects, 'send']"), "type str"),
    "in-place": (wrapped("object.__setattr__(before, 'work', state.work); return state, effects"), "in place"),
    "random": (combined(" + __import__('random').random()"), "different results"),
    "not-finite": (combined(" * float('nan')"), "NaN"),
    "float32": (
        wrapped(
            "return state, [PublishModel(e.parameters.astype('f4'), e.cycle) if isinstance(e, PublishModel) else e "
            "for e in effects]"
        ),
        "float32",
    ),
    "endless-queries": (
        wrapped("return state, [*effects, Ask(Query('momentum-sgd', 'gradient', 0, state.work.model))]"),
        "queries",
    ),
    "no-query": (wrapped("return state, [*effects, Ask('gradient')]"), "not a Query"),
    "endless-timers": (wrapped("return state, [*effects, SetTimer('beat', now)]"), "events"),
    "timer-never": (wrapped("return state, [*effects, SetTimer('beat', float('nan'))]"), "timer"),
    "stranger": (
        wrapped("return state, [Send('x', e.message) if isinstance(e, Send) else e for e in effects]"),
        "no peer",
    ),
    "no-model": (
        wrapped(
            "return state, [e for e in effects if not isinstance(e, PublishModel)]",
            more="def start(self, state, now):\n        return state, [SetTimer('beat', now)]",
        ),
        "published no model",
    ),
    "refuses-all": (
        wrapped(
            "if isinstance(event, Received):\n"
            "            raise MessageRefused('shape', 'no')\n"
            "        return state, effects"
        ),
        "refused",
    ),
    "no-progress": (wrapped(more="def progress(self, state):\n        return None"), "not Progress"),
    "no-json": (
        wrapped(more="def progress(self, state):\n        return Progress('mixing', 0, 0, False, {'x': np.zeros(1)})"),
        "JSON",
    ),
    "forgetful-codec": (
        wrapped(codec="def decode(self, raw):\n        return self._inner.decode(raw[:0])"),
        "decoded state|has 0 parameters",
    ),
    "text-codec": (wrapped(codec="def encode(self, state):\n        return 'state'"), "not bytes"),
    "relation": (
        lambda code: (
            code + "\nfrom dataclasses import replace\nALGORITHM = replace(ALGORITHM, relation=lambda _: 'none')\n"
        ),
        "relation",
    ),
}


@pytest.mark.parametrize("name", [name for name, known in ALGORITHMS.items() if known.secure_sums != "always"])
def test_our_own_learners_keep_the_contract(name: str) -> None:
    check_learner(name, settings=_SETTINGS.get(name))


def test_the_template_keeps_the_contract(installed: Installed) -> None:
    installed(LEARNER, "algorithm", "ALGORITHM", str)
    check_learner("momentum-sgd", settings={"learner": {"momentum": 0.5}})


@pytest.mark.parametrize("defect", BROKEN)
def test_each_defect_is_found(installed: Installed, defect: str) -> None:
    change, words = BROKEN[defect]
    installed(LEARNER, "algorithm", "ALGORITHM", change)
    with pytest.raises((AssertionError, ValueError, AttributeError), match=words):
        check_learner("momentum-sgd")


class _Codec:
    """Payload codec with one defect."""

    _numbers = itertools.count()

    def __init__(self, inner: Any, defect: str) -> None:
        self._inner, self._defect = inner, defect

    def check(self, message: Any) -> None:
        self._inner.check(message)

    def to_bytes(self, message: Any) -> bytes:
        counter = bytes([0xA2, 0x06, 1, next(self._numbers) % 100])  # an unknown field
        return bytes(self._inner.to_bytes(message)) + (counter if self._defect == "differs" else b"")

    def from_bytes(self, payload: bytes) -> Any:
        if self._defect == "IndexError":
            payload[0]
        return self._inner.from_bytes(payload)


@pytest.mark.parametrize("defect", ["differs", "IndexError"])
def test_each_defect_of_a_payload_codec_is_found(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    for algorithm in loaded_algorithms().values():
        for kind in algorithm.payloads.keys() & ALGORITHMS["dp-dpsgd"].payloads.keys():
            codecs = cast(dict[str, Any], algorithm.payloads)
            monkeypatch.setitem(codecs, kind, partial(_Codec, codecs[kind](), defect))
    with pytest.raises(AssertionError, match=defect):
        check_learner("dp-dpsgd")


def test_a_learner_of_secure_sums_and_an_unknown_name_are_refused() -> None:
    for name in ("group-sgd", "nobody"):
        with pytest.raises(AssertionError, match="secure sums" if name == "group-sgd" else name):
            check_learner(name)
