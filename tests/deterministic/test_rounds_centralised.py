"""Learners in rounds without noise: as good as one device that holds all records and takes as many gradients."""

import numpy as np
import pytest
from sottovoce.data import apply
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.measure import Metrics
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher

pytestmark = pytest.mark.slow

AGENTS, CYCLES, BATCH, RATE, DECAY, CLIP = 8, 60, 64, 30.0, 0.9, 0.5


def options(learner: str) -> Options:
    """Eight devices on a ring with equal shares of digits."""
    return Options(
        agents=AGENTS, learner=learner, fidelity="sound", model=None, data="digits", transport="memory", epsilon=None,
        delta=1e-5, cycles=CYCLES, period=1.0, topology="ring", seed=0, faults=Faults(), fault_specs=[],
        settings={"learner.batch": BATCH, "learner.step_size": RATE, "learner.clip": CLIP, "learner.step_decay": DECAY},
    )  # fmt: skip


@pytest.fixture(scope="module")
def centralised() -> float:
    """Return the accuracy after the same number of steps with batches eight times as large."""
    planned, rng = plan(options("dp-dpsgd")), np.random.default_rng(5)
    x = np.vstack([apply(planned.transform, part.features, planned.bounds) for part in planned.raw])
    truth = np.eye(10)[np.concatenate([part.labels for part in planned.raw])]
    model, steps = np.zeros((x.shape[1], 10)), options("dp-dpsgd").steps
    for step in range(steps):
        drawn = rng.random(len(x)) < AGENTS * BATCH / len(x)
        scores = np.exp(x[drawn] @ model)
        error = scores / scores.sum(axis=1, keepdims=True) - truth[drawn]
        lengths = np.linalg.norm(error, axis=1) * np.linalg.norm(x[drawn], axis=1)
        error *= np.minimum(1, CLIP / lengths)[:, np.newaxis]
        model -= RATE * (1 - DECAY * step / (steps - 1)) / (AGENTS * BATCH) * x[drawn].T @ error
    return float(np.mean((planned.test.features @ model).argmax(axis=1) == planned.test.labels))


@pytest.mark.parametrize("learner", ["dp-dpsgd", "muffliato", "dp-net-fleet", "dp-cga", "pdsl"])
def test_accuracy_is_within_a_point_of_centralised_training(learner: str, centralised: float) -> None:
    final = memory.run(plan(options(learner)), Watcher()).final
    assert isinstance(final, Metrics)
    assert centralised > 0.92
    assert centralised - 0.01 <= final.accuracy_min <= final.accuracy_max <= centralised + 0.02
