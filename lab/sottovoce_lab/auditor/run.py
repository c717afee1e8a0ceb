"""Run an audit by playing every game against one target."""

import time
from collections.abc import Callable, Iterator

import numpy as np
from sottovoce.errors import PrivacyError, UsageError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON
from sottovoce.privacy.api import PrivacyStatement
from sottovoce.privacy.vault import Ledger

from sottovoce_lab.auditor.bounds import pure_sample_size, sample_size
from sottovoce_lab.auditor.finding import CONFIDENCE, SIGNIFICANCE, Audit, Finding
from sottovoce_lab.auditor.games import play_canary_game, play_ledger_game, play_low_bits_game, play_noise_game
from sottovoce_lab.auditor.subject import Subject
from sottovoce_lab.auditor.targets import LEARNERS, MECHANISMS
from sottovoce_lab.auditor.targets.shipped import shipped_learner

_TESTS = 7  # maximum number of tests: noise twice, books, low bits, canaries by ε and by advantage, one run


def audit(
    kind: str,
    name: str,
    *,
    fidelity: str = "sound",
    epsilon: float = 2.0,
    delta: float = 1e-5,
    trials: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Play every game against a target.

    Args:
        kind: `mechanism` or `learner`.
        name: the target's name.
        fidelity: `sound`, or `paper` for learners with a variant faithful to the paper.
        epsilon: ε in the target's budget, or the claimed ε if the target's claim is refuted.
        delta: δ.
        trials: the number of canaries to distinguish; None for a default that takes a few seconds.
        seed: seed for the auditor's coins; the noise comes from the operating system and is never seeded.
        progress: callback that receives the name of each game before it is played.

    Raises:
        UsageError: if the target does not exist, or ε or δ is out of range.
        PrivacyError: if the target cannot be built for this budget.
    """
    if not (0 < epsilon <= MAX_EPSILON and 0 < delta < 1):
        raise UsageError(
            f"ε = {epsilon:g}, δ = {delta:g} is not a valid claim: choose 0 < ε ≤ {MAX_EPSILON:g} and 0 < δ < 1"
        )
    started = time.monotonic()
    subject = _subject(kind, name, fidelity, epsilon, delta)
    statement = _statement(subject)
    trials = trials or subject.default_trials
    findings = list(_findings(subject, statement.epsilon, trials, np.random.default_rng(seed), progress))
    return Audit(
        kind=kind,
        name=name,
        fidelity=fidelity,
        observation=subject.observation,
        public_parameters=subject.public_parameters,
        statement=statement,
        delta=subject.delta,
        findings=findings,
        sample_size=_sample_size(subject, statement.epsilon),
        trials=trials,
        seconds=time.monotonic() - started,
    )


def _subject(kind: str, name: str, fidelity: str, epsilon: float, delta: float) -> Subject:
    if kind == "mechanism" and name in MECHANISMS:
        return MECHANISMS[name](epsilon, delta)
    if kind == "learner" and (name, fidelity) in LEARNERS:
        return LEARNERS[name, fidelity](epsilon, delta)
    if kind == "learner" and fidelity == "sound" and name in ALGORITHMS:  # registered by another package
        return shipped_learner(name, fidelity, epsilon, delta)
    known = MECHANISMS if kind == "mechanism" else (f"{name} ({fidelity})" for name, fidelity in LEARNERS)
    names = ", ".join(known)
    raise UsageError(f"no {kind} named `{name}` can be audited with fidelity = {fidelity}; use one of {names}")


def _statement(subject: Subject) -> PrivacyStatement:
    ledger = Ledger.in_memory("audited", subject.budget)
    vault = subject.vault(next(iter(subject.worlds().values())), ledger)
    try:
        return vault.statement
    finally:
        vault.close()


def _findings(
    subject: Subject, stated: float | None, trials: int, rng: np.random.Generator, progress: Callable[[str], None]
) -> Iterator[Finding]:
    alpha = SIGNIFICANCE / _TESTS
    games: dict[str, Callable[[], list[Finding]]] = {}
    if stated is not None:
        games["noise"] = lambda: [play_noise_game(subject, "noise", alpha)]
        if (variant := subject.scalar_variant()) is not None:
            games["noise of a single number"] = lambda: [play_noise_game(variant, "noise of a single number", alpha)]
        games["books"] = lambda: [play_ledger_game(subject)]
        if (grid := subject.grid) is not None:
            games["low bits"] = lambda: [play_low_bits_game(subject, grid, rng, alpha)]
    games["canaries"] = lambda: play_canary_game(subject, stated, trials, rng, alpha, 1 - CONFIDENCE)
    for name, play in games.items():
        progress(name)
        try:
            yield from play()
        except PrivacyError as error:  # the device should have answered this query
            yield Finding(name, "does a device answer every paid query?", 1, {"silent": str(error)}, 0.0, refuted=True)


def _sample_size(subject: Subject, stated: float | None) -> int | None:
    """Return the canary game's sample size, at its share of the significance level."""
    if stated is None:
        return None
    alpha = SIGNIFICANCE / _TESTS
    if subject.shape is not None:
        return sample_size(subject.shape, stated, subject.delta, alpha)
    return pure_sample_size(stated, alpha, subject.hit_probability)
