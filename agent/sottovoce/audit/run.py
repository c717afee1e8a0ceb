"""One audit: every game against one target."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from sottovoce.audit.bounds import gaussian_sample_size, pure_sample_size
from sottovoce.audit.finding import CONFIDENCE, SIGNIFICANCE, Audit, Finding
from sottovoce.audit.games import books, canaries, low_bits, noise
from sottovoce.audit.subject import Subject
from sottovoce.audit.targets import LEARNERS, MECHANISMS
from sottovoce.door import PrivacyStatement
from sottovoce.errors import UsageError
from sottovoce.vault import Ledger

_GAMES = 6  # at most: noise twice, canaries, one run, books, low bits


def audit(
    kind: str,
    name: str,
    *,
    fidelity: str = "sound",
    epsilon: float = 2.0,
    delta: float = 1e-5,
    trials: int = 4000,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Play every game against a target.

    Args:
        kind: `mechanism` or `learner`.
        name: of the target.
        fidelity: `sound`, or `paper` for learners that are there to the letter.
        epsilon: ε of its budget; for a refuted target, of its claim.
        delta: δ.
        trials: canaries to tell apart.
        seed: of the auditor's coins; the noise is the operating system's.
        progress: told what is played.

    Raises:
        UsageError: there is no such target.
        PrivacyError: it cannot be built for such a budget.
    """
    began = time.monotonic()
    subject = _subject(kind, name, fidelity, epsilon, delta)
    statement = _statement(subject)
    findings = list(_findings(subject, statement.epsilon, trials, np.random.default_rng(seed), progress))
    return Audit(
        kind=kind,
        name=name,
        fidelity=fidelity,
        seen=subject.seen,
        statement=statement,
        delta=subject.delta,
        findings=findings,
        sample_size=_sample_size(subject, statement.epsilon),
        trials=trials,
        seconds=time.monotonic() - began,
    )


def _subject(kind: str, name: str, fidelity: str, epsilon: float, delta: float) -> Subject:
    if kind == "mechanism" and name in MECHANISMS:
        return MECHANISMS[name](epsilon, delta)
    if kind == "learner" and (name, fidelity) in LEARNERS:
        return LEARNERS[name, fidelity](epsilon, delta)
    known = MECHANISMS if kind == "mechanism" else (f"{name} ({fidelity})" for name, fidelity in LEARNERS)
    raise UsageError(f"no {kind} `{name}` to audit at fidelity {fidelity}: choose one of {', '.join(known)}")


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
    alpha = SIGNIFICANCE / _GAMES
    if stated is not None:
        progress("noise: its law, whatever the records are")
        yield noise(subject, "noise", alpha)
        if (alone := subject.alone()) is not None:
            yield noise(alone, "noise of a single number", alpha)
        progress("books: asked again, after restarts, beyond the budget")
        yield books(subject)
        if (found := low_bits(subject, rng, alpha)) is not None:
            yield found
    progress(f"canaries: {trials} of them, from device after device")
    yield from canaries(subject, stated, trials, rng, alpha, 1 - CONFIDENCE)


def _sample_size(subject: Subject, stated: float | None) -> int | None:
    """Of the canaries' game, at its share of the significance."""
    if stated is None:
        return None
    alpha = SIGNIFICANCE / _GAMES
    if subject.delta > 0:
        return gaussian_sample_size(stated, subject.delta, alpha)
    return pure_sample_size(stated, alpha, 0.5)
