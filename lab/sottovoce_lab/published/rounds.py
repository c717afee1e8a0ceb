"""The papers' claims about their noise, and whether they hold.

Every claim is about replacing one record in one round. `privacy.epsilon_per` states whether the given ε is for one
round or is divided by the number of rounds, which is how the papers' claims would add up.
"""

import math

from sottovoce.algorithms.family import settings_of
from sottovoce.algorithms.rounds.settings import RoundsSettings
from sottovoce.config import AgentConfig
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.mechanisms.sampling import FixedSize

from sottovoce_lab.published.terms import Claim, PublishedTerms

_REASONS = {
    "pdsl": (
        "the batch gradient is clipped as a whole, so one record can move it by 2C, {batch} times as far as with "
        "clipping per record; the guarantee is per round and per answer, and the paper's equation (27) is our "
        "reconstruction"
    ),
    "dp-cga": (
        "the batch gradient is clipped as a whole, so one record can move it by 2C, {batch} times as far as with "
        "clipping per record; the guarantee is per round and per answer"
    ),
    "dp-dpsgd": (
        "nothing is clipped: the noise is calibrated to gradients no longer than an assumed Lipschitz bound L, which "
        "is not enforced"
    ),
    "muffliato": (
        "the printed ε covers one gradient. The paper's network amplification is not claimed: its closed form adds up "
        "the losses of messages that share noise, and yields μ² = 1/3 for a path of three devices, where it is 1"
    ),
    "dp-net-fleet": (
        "the reconstruction adds noise to every gradient; a step uses two gradients, which the paper computes on the "
        "same records, so μ for a round is 2√K / z; the printed ε covers one gradient"
    ),
}


def published_terms(config: AgentConfig, questions: int, batch: int) -> PublishedTerms:
    """Return the terms with the paper's noise, its claim, and the total ε that the noise really provides."""
    learner, privacy = settings_of(config, RoundsSettings), config.privacy
    clips_batch = learner.name in ("pdsl", "dp-cga")  # the clip applies to the batch
    distance = 2 * learner.clip / (1 if clips_batch else batch)
    rounds = max(1, learner.steps)
    share = 1 if privacy.epsilon_per == "round" else rounds
    epsilon, delta = privacy.epsilon / share, privacy.delta / share
    sigma = distance * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    total = _total(distance / sigma, rounds * questions, privacy.delta) if sigma else "inf"
    clipping = f"clipped per {'batch' if clips_batch else 'example'}"
    if learner.name == "dp-dpsgd":
        clipping = "nothing clipped"
    claim = Claim(
        mechanism=(
            f"Gaussian, σ = {sigma:.6g} on the mean gradient of {batch} records, {clipping}; "
            f"C or L = {learner.clip:g}, one record replaced"
        ),
        composition=(
            f"none: ε covers one round, and there are {rounds}"
            if privacy.epsilon_per == "round"
            else f"ε and δ divided by {rounds} rounds"
        ),
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        is_refuted=False,
        reason=(
            f"{_REASONS[learner.name].format(batch=batch)}; {_assumption(learner.name)}the true ε is {total} "
            f"at δ = {privacy.delta:g} against anyone who sees all {rounds * questions} releases of {rounds} rounds"
        ),
    )
    return PublishedTerms(
        learner=learner.name,
        claim=claim,
        sampling=FixedSize(batch),
        batch=batch,
        clip=None if learner.name == "dp-dpsgd" else learner.clip,
        clip_target="batch" if clips_batch else "example",
        sigma=sigma,
    )


def _assumption(name: str) -> str:
    return "if all gradients were that short, " if name == "dp-dpsgd" else ""


def _total(mu: float, releases: int, delta: float) -> str:
    """Return, as text, the total ε of `releases` releases with μ each, by the Gaussian closed form."""
    epsilon = gaussian_epsilon(mu * math.sqrt(releases), delta)
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "more than 500"
