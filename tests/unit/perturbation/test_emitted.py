"""Possible and impossible outputs of a scheme: by the vault's own mechanism, and by the simulator."""

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.perturbation import Scheme, scheme
from sottovoce.privacy.vault import SeededNoise
from sottovoce_lab.simulator.simulated_records import simulate

SCHEMES = [
    scheme(name, features, classes, epsilon)
    for name in ("laplace-copies", "laplace", "privunit", "krr-privunit")
    for features, classes in ((1, 2), (3, 3), (64, 10))
    for epsilon in (0.1, 2.0, 50.0)
] + [scheme("exact", 4, 3, None)]


@pytest.mark.parametrize(
    "candidate",
    SCHEMES,
    ids=lambda candidate: f"{candidate.name}-{candidate.features}-{candidate.classes}-{candidate.epsilon}",
)
def test_a_scheme_yields_its_stated_outputs_and_no_giant(candidate: Scheme) -> None:
    random = np.random.default_rng(4)
    features = random.normal(size=(50, candidate.features)) * 10.0 ** random.integers(-3, 4, (50, 1))
    features[0] = 0.0
    labels = random.integers(0, candidate.classes, 50)
    drawn = (
        simulate(candidate, features, labels, random)
        if candidate.epsilon
        else np.empty((0, candidate.width), dtype=np.int64)
    )
    mechanism, noise = RecordMechanism(candidate), SeededNoise(3)
    exact = [mechanism.apply(Records(features[i : i + 1], labels[i : i + 1]), noise) for i in range(5)]
    for values in (*drawn, *exact):
        assert candidate.emits(values)
        assert not candidate.emits(np.full(candidate.width, 2**53))
        assert not candidate.emits(np.full(candidate.width, -(2**53)))


@pytest.mark.parametrize("name", ["privunit", "krr-privunit"])
def test_a_point_is_on_the_sphere_and_a_label_is_valid(name: str) -> None:
    candidate = scheme(name, 64, 10, 2.0)
    values = simulate(candidate, np.ones((1, 64)), np.array([3]), np.random.default_rng(1))[0]
    label, point = (values[:1], values[1:]) if name == "krr-privunit" else (values[:0], values)
    for factor in (0, 2, 10):
        assert not candidate.emits(np.append(label, factor * point))
    for wrong_label in (-1, 10) if label.size else ():
        assert not candidate.emits(np.append([wrong_label], point))


@pytest.mark.parametrize("name", ["laplace", "laplace-copies"])
def test_noise_that_is_large_everywhere_is_impossible(name: str) -> None:
    candidate = scheme(name, 64, 2, 2.0)
    large_values = np.full(candidate.width, 4 * candidate.scale)  # type: ignore[attr-defined]
    assert not candidate.emits(large_values)
    assert candidate.emits(np.append(10 * large_values[:1], large_values[1:] // 6)), "a single large value is possible"
