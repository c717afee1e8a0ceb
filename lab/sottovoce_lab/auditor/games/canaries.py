"""A game that checks whether an observer can distinguish canaries better than ε allows.

A fair coin assigns each canary to one of two neighbouring worlds. The observer scores each canary by the likelihood
ratio
under the stated law, and answers "first" if the score exceeds a threshold fixed in advance. Within a single device, it
guesses only the eighth of the canaries about which it is most certain.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.auditor.bounds import Rates, one_run_epsilon
from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.subject import Floats, Subject, watch_new_device

_GUESSED = 8  # the observer guesses one in eight canaries
_MIN = 16  # minimum number of canaries per device; a single run with fewer canaries proves nothing
_BOUNDS = 3  # maximum number of bounds: two from error rates and one from a single run


def canaries(
    subject: Subject, stated: float | None, trials: int, rng: np.random.Generator, alpha: float, doubt: float
) -> list[Finding]:
    """Play the canary game on as many devices as `trials` requires.

    Args:
        subject: the audited subject.
        stated: the claimed ε; None if there is no claim.
        trials: the minimum number of canaries.
        rng: generates the coins; the device's noise comes from the operating system.
        alpha: the game's share of the significance level.
        doubt: 1 - confidence, for all bounds together.
    """
    coins, scores = _play(subject, -(-trials // subject.canaries), rng)
    said = scores > subject.threshold
    rates = Rates(
        hits=int((said & coins).sum()),
        first=int(coins.sum()),
        alarms=int((said & ~coins).sum()),
        second=int((~coins).sum()),
    )
    findings = [_two_world_finding(rates, subject, stated, alpha, doubt / _BOUNDS)]
    if subject.canaries >= _MIN:
        findings.append(_one_run(coins[0], scores[0], subject, stated, alpha, doubt / _BOUNDS))
    return findings


def _play(subject: Subject, devices: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Floats]:
    """Run the devices, and return the coins, bool[devices, m], and the scores, float64[devices, m]."""
    coins = rng.random((devices, subject.canaries)) < 0.5
    scores = np.stack([subject.scores(watch_new_device(subject, subject.canary_records(thrown))) for thrown in coins])
    return coins, scores


def _two_world_finding(rates: Rates, subject: Subject, stated: float | None, alpha: float, doubt: float) -> Finding:
    facts: dict[str, float | int | str] = {
        "hits": rates.hits,
        "first_world": rates.first,
        "false_alarms": rates.alarms,
        "second_world": rates.second,
    }
    bounds = [rates.epsilon(subject.delta, doubt)]
    refuted = stated is not None and rates.epsilon(subject.delta, alpha) > stated
    if subject.shape is not None and stated is not None:
        most = subject.shape.advantage(stated, subject.delta)
        facts |= {"advantage_lower_bound": rates.advantage(doubt), "advantage_stated": most}
        bounds.append(subject.shape.epsilon(rates.advantage(doubt), subject.delta))
        refuted |= rates.advantage(alpha) > most
    return Finding(
        "canaries", "can two neighbours be distinguished better than ε allows?", rates.first + rates.second, facts,
        epsilon_lower_bound=max(bounds), refuted=refuted,
    )  # fmt: skip


def _one_run(
    coins: NDArray[np.bool_], scores: Floats, subject: Subject, stated: float | None, alpha: float, doubt: float
) -> Finding:
    m = len(coins)
    middle = subject.threshold if subject.shape is not None else 0.0
    surest = np.argsort(-np.abs(scores - middle), kind="stable")[: m // _GUESSED]
    right = int(((scores > middle) == coins)[surest].sum())
    bound = one_run_epsilon(m, len(surest), right, subject.delta, doubt)
    refuted = stated is not None and one_run_epsilon(m, len(surest), right, subject.delta, alpha) > stated
    return Finding(
        "one run", "can many canaries in one device be guessed better than ε allows?", m,
        {"guesses": len(surest), "right": right}, epsilon_lower_bound=bound, refuted=refuted,
    )  # fmt: skip
