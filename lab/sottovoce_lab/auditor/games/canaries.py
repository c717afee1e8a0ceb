"""A game that checks whether an observer can distinguish canaries better than ε allows.

A fair coin assigns each canary to one of two neighbouring worlds. The observer scores each canary by the likelihood
ratio under the stated law, and answers "first" if the score exceeds a threshold fixed in advance. Within a single
device, the observer guesses only the eighth of the canaries about which it is most certain.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.auditor.bounds import AnswerCounts, one_run_epsilon
from sottovoce_lab.auditor.finding import Finding
from sottovoce_lab.auditor.subject import Floats, Subject, observe_new_device

_GUESS_DIVISOR = 8  # the observer guesses one in eight canaries
_MIN_CANARIES = 16  # minimum number of canaries per device; a single run with fewer canaries proves nothing
_BOUNDS = 3  # maximum number of bounds: two from error rates and one from a single run


def play_canary_game(
    subject: Subject, stated: float | None, trials: int, rng: np.random.Generator, alpha: float, bound_alpha: float
) -> list[Finding]:
    """Play the canary game on as many devices as `trials` requires.

    Args:
        subject: the audited subject.
        stated: the claimed ε; None if there is no claim.
        trials: the minimum number of canaries.
        rng: generates the coins; the device's noise comes from the operating system.
        alpha: the game's share of the significance level.
        bound_alpha: 1 - confidence, for all bounds together.
    """
    coins, scores = _play(subject, -(-trials // subject.canaries), rng)
    answers_first = scores > subject.threshold
    counts = AnswerCounts(
        hits=int((answers_first & coins).sum()),
        first_trials=int(coins.sum()),
        alarms=int((answers_first & ~coins).sum()),
        second_trials=int((~coins).sum()),
    )
    findings = [_two_world_finding(counts, subject, stated, alpha, bound_alpha / _BOUNDS)]
    if subject.canaries >= _MIN_CANARIES:
        findings.append(_one_run_finding(coins[0], scores[0], subject, stated, alpha, bound_alpha / _BOUNDS))
    return findings


def _play(subject: Subject, devices: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Floats]:
    """Run the devices, and return the coins, bool[devices, m], and the scores, float64[devices, m]."""
    coins = rng.random((devices, subject.canaries)) < 0.5
    scores = np.stack(
        [subject.scores(observe_new_device(subject, subject.canary_records(device_coins))) for device_coins in coins]
    )
    return coins, scores


def _two_world_finding(
    counts: AnswerCounts, subject: Subject, stated: float | None, alpha: float, bound_alpha: float
) -> Finding:
    facts: dict[str, float | int | str] = {
        "hits": counts.hits,
        "first_world": counts.first_trials,
        "false_alarms": counts.alarms,
        "second_world": counts.second_trials,
    }
    bounds = [counts.epsilon(subject.delta, bound_alpha)]
    refuted = stated is not None and counts.epsilon(subject.delta, alpha) > stated
    if subject.shape is not None and stated is not None:
        maximum = subject.shape.advantage(stated, subject.delta)
        facts |= {"advantage_lower_bound": counts.advantage(bound_alpha), "advantage_stated": maximum}
        bounds.append(subject.shape.epsilon(counts.advantage(bound_alpha), subject.delta))
        refuted |= counts.advantage(alpha) > maximum
    return Finding(
        "canaries", "can two neighbours be distinguished better than ε allows?",
        counts.first_trials + counts.second_trials, facts,
        epsilon_lower_bound=max(bounds), refuted=refuted,
    )  # fmt: skip


def _one_run_finding(
    coins: NDArray[np.bool_], scores: Floats, subject: Subject, stated: float | None, alpha: float, bound_alpha: float
) -> Finding:
    m = len(coins)
    middle = subject.threshold if subject.shape is not None else 0.0
    most_certain = np.argsort(-np.abs(scores - middle), kind="stable")[: m // _GUESS_DIVISOR]
    correct = int(((scores > middle) == coins)[most_certain].sum())
    bound = one_run_epsilon(m, len(most_certain), correct, subject.delta, bound_alpha)
    refuted = stated is not None and one_run_epsilon(m, len(most_certain), correct, subject.delta, alpha) > stated
    return Finding(
        "one run", "can many canaries in one device be guessed better than ε allows?", m,
        {"guesses": len(most_certain), "right": correct}, epsilon_lower_bound=bound, refuted=refuted,
    )  # fmt: skip
