"""Batches that the vault draws: exactly with the charged distribution."""

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.sampled import sampled_epsilon
from sottovoce.privacy.mechanisms.noise import SeededNoise
from sottovoce.privacy.mechanisms.sampled_sum import calibrate_sampled
from sottovoce.privacy.mechanisms.sampling import FixedSize, Poisson, WithReplacement


def test_a_poisson_batch_includes_each_record_independently_at_its_rate() -> None:
    noise, hits = SeededNoise(1), np.zeros(50)
    for _ in range(4000):
        hits[Poisson(3, 10).draw(50, noise)] += 1
    assert abs(hits.mean() / 4000 - 0.3) < 0.005
    assert np.abs(hits / 4000 - 0.3).max() < 5 * np.sqrt(0.21 / 4000)


def test_a_rate_of_one_includes_all_records_and_costs_no_randomness() -> None:
    assert Poisson(7, 7).draw(5, SeededNoise(1)).tolist() == [0, 1, 2, 3, 4]


def test_a_fixed_size_batch_has_different_equally_likely_records() -> None:
    noise, hits = SeededNoise(2), np.zeros(10)
    for _ in range(5000):
        batch = FixedSize(3).draw(10, noise)
        assert len(set(batch.tolist())) == 3
        hits[batch] += 1
    assert np.abs(hits / 5000 - 0.3).max() < 5 * np.sqrt(0.21 / 5000)
    assert FixedSize(3).draw(2, noise).tolist() == [0, 1]


def test_draws_with_replacement_may_repeat() -> None:
    drawn = WithReplacement(400).draw(20, SeededNoise(3))
    assert drawn.shape == (400,)
    assert set(drawn.tolist()) == set(range(20))
    assert WithReplacement(5).draw(0, SeededNoise(3)).size == 0


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_sampled_sums_spend_exactly_the_budget(neighbouring: str) -> None:
    mechanism, event = calibrate_sampled(
        clip=0.5, size=100, releases=50, epsilon=1.0, delta=1e-5, neighbouring=neighbouring, batch=1, of=20
    )
    spent = sampled_epsilon(0.0, 0.0, {event: 50}, 1e-5)
    assert 0.98 < spent <= 1.0
    assert event.sigma == mechanism.sigma


def test_more_records_in_a_batch_need_more_noise() -> None:
    noise = [
        calibrate_sampled(
            clip=1.0, size=10, releases=20, epsilon=1.0, delta=1e-5, neighbouring="add-remove", batch=batch, of=100
        )[0]
        for batch in (1, 10, 100)
    ]
    spread = [mechanism.sigma * mechanism.step for mechanism in noise]
    assert spread == sorted(spread)


@pytest.mark.parametrize("batch, of, releases", [(0, 10, 5), (11, 10, 5), (1, 10, 0)])
def test_impossible_batches_are_refused(batch: int, of: int, releases: int) -> None:
    with pytest.raises(PrivacyError, match=r"learner\.batch"):
        calibrate_sampled(
            clip=1.0, size=10, releases=releases, epsilon=1.0, delta=1e-5, neighbouring="add-remove", batch=batch, of=of
        )
