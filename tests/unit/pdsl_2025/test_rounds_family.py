"""Learners in rounds from a configuration: the step size follows from the noise of the shipped mechanism."""

import math
from typing import Any

import pytest
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.algorithms.rounds.parts import build_schedule
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian
from sottovoce.privacy.terms.gradients import GradientTerms

SIZE = 650


def config(
    epsilon: float, records: float = 180.0, relation: str = "add-remove", name: str = "dp-dpsgd", **learner: Any
) -> AgentConfig:
    return config_from_tables(
        {
            "agent": {"state": "."},
            "data": {"source": "digits", "features": 64, "classes": 10, "expected_records": records},
            "learner": {"name": name, **learner},
            "privacy": {"epsilon": epsilon, "neighbouring": relation},
        },
        "test",
    )


def noise_distance(chosen: AgentConfig) -> float:
    """Return how far the vault's noise moves a model in all rounds of constant steps, γ σ √(K P)/B."""
    family = build_family(chosen)
    terms, kernel = family.terms, family.kernel
    assert isinstance(terms, GradientTerms)
    assert kernel is not None
    schedule = build_schedule(chosen, kernel.size)
    mechanism, _ = terms.program(kernel, required_budget(chosen), kernel.size, is_presummed=False)
    assert isinstance(mechanism, DiscreteGaussian)
    deviation = mechanism.step * mechanism.sigma
    return float(schedule.step_size / schedule.batch * deviation * math.sqrt(terms.releases * kernel.size))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon, records", [(0.5, 120.0), (2.0, 180.0), (2.0, 400.0), (0.5, 1000.0), (0.3, 6000.0)])
def test_noise_moves_a_model_by_the_same_distance(epsilon: float, records: float, relation: str) -> None:
    chosen = config(epsilon, records, relation)
    assert noise_distance(chosen) == pytest.approx(200.0, rel=0.15)


def test_several_local_steps_share_that_distance() -> None:
    assert noise_distance(config(1.0, name="dp-net-fleet", local_steps=4)) == pytest.approx(200.0, rel=0.15)


def test_a_multi_layer_network_moves_less_far() -> None:
    assert noise_distance(config(2.0, model="mlp")) == pytest.approx(120.0, rel=0.15)


@pytest.mark.parametrize(
    "chosen, step_size",
    [
        (config(50.0, 6000.0), 160.0),
        (config(math.inf), 160.0),
        (config(50.0, 6000.0, model="ridge"), 20.0),
        (config(0.5, step_size=7.0), 7.0),
        (config(0.5, fidelity="paper"), 20.0),
    ],
    ids=["little noise", "no noise", "ridge", "configured", "paper"],
)
def test_the_step_size_has_a_limit_and_can_be_configured(chosen: AgentConfig, step_size: float) -> None:
    assert build_schedule(chosen, SIZE).step_size == step_size
