"""Fleet before a run: records per device, bounds, the default transform, and the possible guarantees."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.errors import DataError, PrivacyError, UsageError
from sottovoce.privacy.api import Status
from sottovoce_lab.experiments import build_settings
from sottovoce_lab.experiments.fleet import Fleet, assemble
from sottovoce_lab.experiments.statement import build_statement


def fleet(**values: Any) -> Fleet:
    return assemble(build_settings({key.replace("__", "."): value for key, value in values.items()}, "test"))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Return 50 records of three classes with 9 features."""
    generator = np.random.default_rng(0)
    labels = np.arange(50) % 3
    np.savez(tmp_path / "t.npz", X=generator.normal(size=(50, 9)) + labels[:, np.newaxis], y=labels, classes=3)
    return f"npz:{tmp_path / 't.npz'}"


def test_unassigned_records_form_the_test_set(table: str) -> None:
    for agents, size in ((10, 10), (49, 49), (None, 45)):
        created = fleet(data=table, agents=agents)
        assert (len(created.records), len(created.test)) == (size, 50 - size)
    with pytest.raises(UsageError, match="agents = 50"):
        fleet(data=table, agents=50)


def test_an_official_test_split_is_used(tmp_path: Path) -> None:
    rows, labels = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 2
    np.savez(tmp_path / "t.npz", X=rows[:20], y=labels[:20], X_test=rows[20:], y_test=labels[20:])
    assert len(fleet(data=f"npz:{tmp_path / 't.npz'}").records) == 20
    with pytest.raises(DataError, match=r"fewer.*agents"):
        fleet(data=f"npz:{tmp_path / 't.npz'}", agents=21)


def test_the_same_seed_yields_the_same_records_and_noise(table: str) -> None:
    one, other, another = (fleet(data=table, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.perturbed_records(), other.perturbed_records())
    assert np.array_equal(one.released_values(), other.released_values())
    assert not np.array_equal(one.records.features, another.records.features)


def test_both_variants_have_the_same_records_with_the_same_seed(table: str) -> None:
    sound, paper = fleet(data=table, seed=5), fleet(data=table, seed=5, fidelity="paper")
    assert np.array_equal(sound.records.labels, paper.records.labels)
    assert np.array_equal(sound.test.labels, paper.test.labels)


def test_devices_send_the_released_records(table: str) -> None:
    created = fleet(data=table, epsilon=2.0)
    np.testing.assert_allclose(created.perturbed_records(), created.scheme.decode(created.released_values()), rtol=1e-6)


@pytest.mark.parametrize("fidelity, norm", [("sound", 2), ("paper", 1)])
def test_without_noise_records_have_length_one_in_the_variant_s_norm(table: str, fidelity: str, norm: int) -> None:
    q = fleet(data=table, epsilon=float("inf"), fidelity=fidelity).perturbed_records()
    np.testing.assert_allclose(np.linalg.norm(q, ord=norm, axis=2), 1, rtol=1e-5)
    assert q.shape == (45, 3, 9 if fidelity == "paper" else 10)


def test_paper_fidelity_uses_the_training_set_s_ranges(table: str) -> None:
    created = fleet(data=table, fidelity="paper", epsilon=float("inf"))
    assert created.training_bounds
    np.testing.assert_array_equal(created.records.features.min(axis=0), 0)
    np.testing.assert_array_equal(created.records.features.max(axis=0), 1)
    assert created.test.features.min() >= 0
    assert created.test.features.max() <= 1
    assert created.scheme.name == "exact"
    assert fleet(data=table, fidelity="paper").scheme.name == "laplace-copies"


def test_declared_ranges_replace_training_ranges(table: str) -> None:
    created = fleet(data=table, fidelity="paper", data__bounds=(-10.0, 10.0))
    assert not created.training_bounds
    assert build_statement(created).status is Status.PROVED
    chosen = fleet(data=table, data__transform="squash(1)", data__bounds=(-10.0, 10.0))
    assert (np.abs(chosen.records.features - 0.5) < 0.5).all()


def test_the_default_transform_follows_the_declarations(tmp_path: Path, table: str) -> None:
    assert fleet(data=table).transform == "squash(0.05),centre,unit,bias(0.3)"
    assert fleet(data=table, fidelity="paper").transform == "squash(1)"
    assert fleet().transform == "unit,bias(0.3)"
    assert fleet(data="two-gaussians").transform == "squash(1),subtract(0.5),bias(0.3)"


def test_the_model_is_ridge_if_possible(table: str) -> None:
    assert fleet(data=table).model == "ridge"
    assert fleet(data=table, fidelity="paper").model == "pegasos"
    assert fleet(data=table, learner="gradient-walk").model == "pegasos"
    assert fleet(data=table, learner__model="logistic").model == "logistic"
    assert fleet(agents=100_001, data__features=1).model == "pegasos"


def test_the_guarantee_is_the_one_that_holds(table: str) -> None:
    sound = build_statement(fleet(data=table, epsilon=3.0))
    assert (sound.status, sound.epsilon, sound.delta, sound.neighbouring) == (Status.PROVED, 3.0, 0.0, "replace-one")
    none = build_statement(fleet(data=table, epsilon=float("inf"), fidelity="paper"))
    assert (none.status, none.epsilon, none.delta) == (Status.NONE, None, None)
    refuted = build_statement(fleet(data=table, fidelity="paper", privacy__allow_unproved=True))
    assert (refuted.status, refuted.epsilon) == (Status.REFUTED, 5.0)
    assert "training set" in refuted.reason
    with pytest.raises(PrivacyError, match=r"data\.bounds.*privacy\.allow_unproved"):
        build_statement(fleet(data=table, fidelity="paper"))
    with pytest.raises(PrivacyError, match="no ε"):
        build_statement(fleet(data=table, data__bounds="training"))
    walk = build_statement(fleet(data=table, learner="gradient-walk", learner__budget="halving", learner__visits=4))
    assert "4 visits, halving" in walk.mechanism
