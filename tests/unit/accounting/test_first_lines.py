"""What users of Opacus and dp-accounting type first: it works, or one error says what to type."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import sottovoce
from sottovoce import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Pure, calibrate, compose

call: Any = lambda function: function  # noqa: E731 - calls below are wrong on purpose, so they are not type-checked


@pytest.mark.parametrize(
    "release, text",
    [
        (Gaussian(sigma=1, count=100), "gaussian:sigma=1,count=100"),
        (Gaussian(2.0, rate=0.01, count=1000), "gaussian:sigma=2,rate=0.01,count=1000"),
        (Gaussian(1, batch=10, of=1000, count=5), "gaussian:sigma=1,batch=10,of=1000,count=5"),
        (Gaussian(3, neighbouring="replace-one"), "gaussian:sigma=3,neighbouring=replace-one"),
        (DiscreteGaussian(4, sensitivity=2), "discrete-gaussian:sigma=4,sensitivity=2"),
        (DiscreteGaussian(2, dimensions=1), "discrete-gaussian:sigma=2,dimensions=1"),
        (Laplace(scale=1, count=3), "laplace:scale=1,count=3"),
        (DiscreteLaplace(scale=2), "discrete-laplace:scale=2"),
        (Pure(0.5), "pure:epsilon=0.5"),
    ],
)
def test_an_object_costs_what_its_text_costs(release: Any, text: str) -> None:
    assert compose(release) == compose(text)


def test_a_list_costs_what_its_releases_cost_one_by_one() -> None:
    releases: list[Any] = [Gaussian(sigma=2, count=10), Laplace(scale=4), "pure:epsilon=0.1"]
    assert compose(releases) == compose(*releases) == compose(iter(releases))


def test_pure_releases_need_no_delta_in_any_function() -> None:
    assert compose(Laplace(scale=1), delta=0).epsilon == pytest.approx(calibrate("laplace", epsilon=1, delta=0).noise)
    many = compose([Laplace(scale=2, count=2), DiscreteLaplace(scale=1), Pure(0.5)], delta=0)
    assert many.epsilon == pytest.approx(2.5)
    assert many.delta == 0
    for refused in (
        lambda: compose(Gaussian(sigma=1), delta=0),
        lambda: compose([Laplace(scale=1), Gaussian(sigma=1, rate=0.1)], delta=0),
        lambda: compose(DiscreteGaussian(sigma=2, dimensions=1), delta=0),
        lambda: calibrate("gaussian", epsilon=1, delta=0),
        lambda: calibrate("discrete-gaussian", epsilon=1, delta=0),
    ):
        with pytest.raises(sottovoce.PrivacyError, match="delta"):
            refused()


@pytest.mark.parametrize(
    "line, names",
    [
        (lambda: call(calibrate)("gaussian", epsilon="1", delta=1e-5), ["epsilon", "'1'"]),
        (lambda: call(calibrate)("gaussian", epsilon=1, delta="1e-5"), ["delta"]),
        (lambda: call(calibrate)("gaussian", epsilon=True, delta=1e-5), ["epsilon"]),
        (lambda: call(calibrate)("gauss", epsilon=1, delta=1e-5), ["gauss", "gaussian"]),
        (lambda: call(calibrate)("laplace", epsilon=1, delta=0, neighbouring="add"), ["neighbouring", "add-remove"]),
        (lambda: call(calibrate)("gaussian", target_epsilon=1, target_delta=1e-5), ["target_epsilon", "epsilon="]),
        (lambda: call(calibrate)("gaussian", epsilon=1, delta=1e-5, sample_rate=0.1), ["sample_rate", "rate="]),
        (lambda: call(calibrate)("gaussian", epsilon=1, delta=1e-5, releses=3), ["releses", "releases="]),
        (lambda: call(compose)(1.0), ["1.0", "Gaussian("]),
        (lambda: call(compose)([1.0]), ["1.0", "Gaussian("]),
        (lambda: call(compose)(Gaussian, delta=1e-5), ["Gaussian("]),
        (lambda: call(compose)(call(Gaussian)(sigma="1"), delta=1e-5), ["sigma", "'1'"]),
        (lambda: call(compose)(Gaussian(sigma=-1)), ["sigma"]),
        (lambda: call(compose)(Gaussian(sigma=1, count=0)), ["count"]),
        (lambda: call(compose)(Gaussian(sigma=1), delta="1e-5"), ["delta"]),
        (lambda: call(compose)(Gaussian(sigma=1), target_delta=1e-5), ["target_delta", "delta="]),
        (lambda: call(sottovoce.Budget)(unit="user"), ["unit", "user", "device"]),
        (lambda: call(sottovoce.Budget)(epsilon=1.0, delta=1e-5), ["unit"]),
        (lambda: call(sottovoce.Budget)(1.0, 1e-5, "record"), ["neighbouring", "replace-one"]),
        (lambda: call(sottovoce.Budget)(unit="record", neighbouring="add-remove", delta=1e-5), ["epsilon"]),
        (lambda: call(sottovoce.Budget)(1.0, unit="record", neighbouring="add-remove"), ["delta"]),
        (lambda: call(sottovoce.Budget)("1", 1e-5, "record", "add-remove"), ["epsilon"]),
    ],
)
def test_what_cannot_work_raises_one_error_that_names_it(line: Callable[[], Any], names: list[str]) -> None:
    with pytest.raises(sottovoce.SottovoceError) as caught:
        line()
    assert all(name in str(caught.value) for name in names)


@pytest.mark.parametrize(
    "name, advised",
    [
        ("PrivacyEngine", "simulate"),
        ("get_noise_multiplier", "calibrate"),
        ("GaussianDpEvent", "Gaussian"),
        ("simulate", "sottovoce_lab.simulate"),
        ("Guassian", "Gaussian"),
    ],
)
def test_a_name_of_another_library_is_answered_with_a_name_that_exists(name: str, advised: str) -> None:
    with pytest.raises(AttributeError, match=advised) as caught:
        getattr(sottovoce, name)
    for module, public_name in re.findall(r"\b(sottovoce|sottovoce_lab)\.(\w+)", str(caught.value)):
        assert hasattr(pytest.importorskip(module), public_name)
