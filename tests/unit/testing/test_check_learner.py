"""Contract suite for learners: it passes for our own, and finds each defect of a broken one."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import Family
from sottovoce.config import config_from_tables
from sottovoce.learning.registry import ALGORITHMS, loaded_algorithms
from sottovoce.plugins import LEARNER
from sottovoce.privacy.terms.rows import OutsideTerms
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


_OWN_TERMS = """
class Own(RowSumTerms):
    pass
"""
_OWN_KERNEL = """
from sottovoce.privacy.terms.gradients import GradientTerms

class Unclipped:
    size, sum_error = 8, 0.0

    def clipped_gradient_sum(self, point, features, labels, clip):
        return features.sum(axis=0)

_PARTS = build_parts

def build_parts(config, public):
    family = _PARTS(config, public)
    return replace(family, kernel=Unclipped(), terms=GradientTerms(config.learner.name, 1, 1.0))

ALGORITHM = replace(ALGORITHM, parts=build_parts)
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


def test_the_template_of_any_learner_keeps_the_contract_and_is_proved(installed: Installed) -> None:
    installed(LEARNER, "learner", "ALGORITHM", str)
    check_learner("class-sums")


def build_class_sums() -> Family:
    tables = {
        "agent": {"state": "."},
        "data": {"source": "digits", "features": 4, "classes": 2, "expected_records": 9.0},
        "learner": {"name": "class-sums"},
        "privacy": {"epsilon": 2.0},
    }
    return build_family(config_from_tables(tables, "test"))


def test_terms_of_another_package_are_marked_as_not_proved(installed: Installed) -> None:
    """Only the vault's own terms may say `proved`; the package below says it of a bound that it checks itself."""
    installed(
        LEARNER,
        "learner",
        "ALGORITHM",
        lambda code: code.replace("RowSumTerms(learner.name", "Own(learner.name") + _OWN_TERMS,
    )
    assert isinstance(build_class_sums().terms, OutsideTerms)
    check_learner("class-sums")


def test_a_kernel_of_another_package_is_marked_as_not_proved(installed: Installed) -> None:
    """A kernel that states an error of its sums clips the records itself, and the vault does not clip them again."""
    installed(LEARNER, "learner", "ALGORITHM", lambda code: code + _OWN_KERNEL)
    assert isinstance(build_class_sums().terms, OutsideTerms)


def test_the_template_keeps_the_contract(installed: Installed) -> None:
    installed(LEARNER, "algorithm", "ALGORITHM", str)
    check_learner("momentum-sgd", settings={"learner": {"momentum": 0.5}})


@pytest.mark.parametrize("defect", BROKEN)
def test_each_defect_is_found(installed: Installed, defect: str) -> None:
    change, words = BROKEN[defect]
    installed(LEARNER, "algorithm", "ALGORITHM", change)
    with pytest.raises((AssertionError, ValueError, AttributeError), match=words):
        check_learner("momentum-sgd")


@pytest.mark.parametrize(
    "own, broken, words",
    [
        pytest.param('"sums")\n', '"summs")\n', "'summs'.*'sums'", id="quantity"),
        pytest.param("== label).ravel()", "== label).ravel()[1:]", r"row\(\)", id="row's length"),
        pytest.param("np.arange(classes) == label", "np.nan * label", r"row\(\)", id="row not finite"),
        pytest.param("np.outer(features, np", "np.outer(missing, np", r"row\(\).*NameError", id="row fails"),
        pytest.param(
            "        return np.outer(features, np",
            "        row.__dict__['calls'] = row.__dict__.get('calls', 0) + 1\n"
            "        return row.__dict__['calls'] * np.outer(features, np",
            r"row\(\).*keep nothing",
            id="row with a memory",
        ),
        pytest.param(" or message.sums.shape != (self._size,)", "", "wrong shape.*MessageRefused", id="message"),
        pytest.param(
            "message.sums})", "message.sums + np.zeros(self._size)})", "wrong shape.*MessageRefused", id="broadcast"
        ),
        pytest.param(
            "    simulated: bool = False\n\n\nclass ClassSums(",
            "    simulated: bool = False\n    own: np.ndarray = field(default_factory=lambda: np.zeros(0))\n\n\n"
            "class ClassSums(",
            r"own.*initial_state\(\)",
            id="state",
        ),
        pytest.param("{ClassSum.kind: lambda: PlainCodec(ClassSum)}", "{}", "payloads of your Algorithm", id="payload"),
    ],
)
def test_each_defect_of_a_learner_with_its_private_half_is_found(
    installed: Installed, own: str, broken: str, words: str
) -> None:
    def change(code: str) -> str:
        code = code.replace(" or message.sums.shape != (self._size,)", "") if "zeros(self" in broken else code
        code = code.replace("self._owner: sums}, ", "self._owner: sums}, own=sums, ") if "own:" in broken else code
        return code.replace(own, broken)

    installed(LEARNER, "learner", "ALGORITHM", change)
    with pytest.raises(AssertionError, match=words):
        check_learner("class-sums")


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


@pytest.mark.papers
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
