"""AdaD²P, ConstD²P and ClipD²P exactly as published (ICLR 2024 submission, Section 4), with noise and guarantee."""

import math
from functools import lru_cache

from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.push_sum.settings import ClipD2pSettings
from sottovoce.algorithms.push_sum.step_count import step_count
from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON
from sottovoce.privacy.accounting.sampled import SampledGaussian, sampled_epsilon
from sottovoce.privacy.mechanisms.sampling import FixedSize
from sottovoce_papers.adad2p_2024.settings import ConstD2pSettings

from sottovoce_lab.published.terms import Claim, PublishedTerms

_UNITS = 2**20
_NOISE = {
    "adad2p": "scale {:.4g} ‖g‖ on the unclipped gradient g of one random record per step",
    "constd2p": "scale {:.4g} on the unclipped gradient of one random record per step",
    "clipd2p": "scale {:.4g} on the clipped gradient of one random record per step",
}
_PAGE = "docs/explanation/push-sum.md#to-the-letter"


def published_terms(config: AgentConfig) -> PublishedTerms:
    """Return the terms for one random record per step, sampled with replacement, with the paper's noise.

    Raises:
        ConfigError: if ConstD²P has no gradient bound.
    """
    learner, sigma = settings_of(config, ClipD2pSettings), published_sigma(config)
    clip = learner.clip if learner.name == "clipd2p" else None
    bound = learner.gradient_bound if isinstance(learner, ConstD2pSettings) else clip or 1.0
    if sigma == 0:
        bound = 1.0
    if bound is None:
        raise ConfigError(
            'learner.gradient_bound: constd2p with fidelity = "paper" requires G, the longest gradient in five runs '
            "without privacy: a testbed computes it; for an agent, set this key"
        )
    return PublishedTerms(
        learner=learner.name,
        claim=_claim(config, sigma, sigma * bound),
        sampling=FixedSize(1),
        batch=1,
        clip=clip,
        clip_target="example",
        sigma=sigma * bound,
        has_relative_noise=learner.name == "adad2p",
    )


def published_sigma(config: AgentConfig) -> float:
    """Return σ as configured, or c₂ √(K ln(1/δ)) / (J ε) with c₂ = 1, which the paper leaves open."""
    learner, privacy = settings_of(config, ClipD2pSettings), config.privacy
    if math.isinf(privacy.epsilon):
        return 0.0
    return _formula(config, privacy.epsilon) if learner.sigma is None else learner.sigma


@lru_cache(maxsize=16)
def true_epsilon(sigma: float, steps: int, records: int, delta: float) -> float:
    """Return the true cost of ClipD²P's σ: K Gaussian releases of one of J records, sampled uniformly, replace-one.

    Args:
        sigma: σ, the ratio of the noise to the clip norm.
        steps: the number of steps K.
        records: the number of records J.
        delta: δ.
    """
    event = SampledGaussian(
        _UNITS**2, math.floor(sigma * _UNITS), "without-replacement", 1, max(1, records), "replace-one"
    )
    return sampled_epsilon(0.0, 0.0, {event: max(1, steps)}, delta)


def _formula(config: AgentConfig, value: float) -> float:
    """Return σ for a given ε, or ε for a given σ, since the formula is its own inverse."""
    steps, records = step_count(config), config.data.expected_records
    return math.sqrt(max(1, steps) * math.log(1 / config.privacy.delta)) / (records * value)


def _claim(config: AgentConfig, sigma: float, scale: float) -> Claim:
    name = config.learner.name
    return Claim(
        mechanism="discrete Gaussian with " + _NOISE[name].format(scale),
        composition="as published: σ = c₂ √(K ln(1/δ)) / (J ε) after Abadi et al. 2016, Theorem 1, with c₂ = 1",
        epsilon=_formula(config, sigma) if sigma else None,
        delta=config.privacy.delta,
        is_refuted=name != "clipd2p",
        reason=_reason(config, sigma),
    )


def _reason(config: AgentConfig, sigma: float) -> str:
    learner, data = settings_of(config, ClipD2pSettings), config.data
    if learner.name == "adad2p":
        return f"refuted: the noise scale depends on the record; run `privacy audit --mechanism adad2p`; see {_PAGE}"
    if learner.name == "constd2p":
        return f"refuted: G is estimated from private records, and a gradient may exceed it; see {_PAGE}"
    if sigma == 0:
        return "the noiseless baseline"
    actual = true_epsilon(sigma, step_count(config), round(data.expected_records), config.privacy.delta)
    cost = f"ε = {actual:.4g}" if actual <= MAX_EPSILON else f"more than ε = {MAX_EPSILON:g}"
    return f"the mechanism is correct, but its constant is not: σ = {sigma:.4g} actually costs {cost}; {_PAGE}"
