"""What can be audited, by name: a line each, and a file for what needs a law of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from sottovoce.audit.subject import Subject
from sottovoce.audit.targets import learners, rounds, shared_model
from sottovoce.audit.targets.chains import Chains
from sottovoce.audit.targets.normalised import NormalisedSums
from sottovoce.audit.targets.records import CLASSES, FEATURES, PublishedRecords
from sottovoce.audit.targets.scaled import ScaledNoiseSums
from sottovoce.audit.targets.streams import Streams
from sottovoce.audit.targets.sums import CLIP, GaussianSums
from sottovoce.audit.targets.walks import VisitSums
from sottovoce.kernels.decentralised.normalisation import Rule
from sottovoce.learners import Thresholds
from sottovoce.perturbation import best, scheme
from sottovoce.vault import Budget

Law = Literal["joint", "copies"]
Made = Callable[[float, float], Subject]
"""A subject for (ε, δ)."""


def _sums(name: str, *, wire: bool, promised: bool = True) -> Made:
    def made(epsilon: float, delta: float) -> Subject:
        subject = GaussianSums(name, Budget(epsilon if promised else None, delta, "record", "add-remove"))
        return replace(subject, over=learners.push_sum(name, subject.kernel.size)) if wire else subject

    return made


def _normalised(rule: Rule, *, wire: bool) -> Made:
    def made(epsilon: float, delta: float) -> Subject:
        subject = NormalisedSums("adad2p", Budget(epsilon, delta, "record", "add-remove"), rule=rule)
        thresholds = Thresholds(rule, CLIP)
        return replace(subject, over=learners.push_sum("adad2p", subject.kernel.size, thresholds)) if wire else subject

    return made


def _records(name: str) -> Made:
    def made(epsilon: float, delta: float) -> Subject:
        chosen = scheme(name, FEATURES, CLASSES, epsilon)
        return PublishedRecords(chosen, Budget(epsilon, delta, "record", "replace-one"))

    return made


def _golf(epsilon: float, delta: float, paper: bool) -> Subject:
    chosen = scheme("laplace-copies", FEATURES, CLASSES, epsilon) if paper else best(FEATURES, CLASSES, epsilon)
    return PublishedRecords(chosen, Budget(epsilon, delta, "record", "replace-one"), learners.golf(chosen))


def _visits(law: Law, *, wire: bool) -> Made:
    def made(epsilon: float, delta: float) -> Subject:
        subject = VisitSums(law, Budget(epsilon, delta, "record", "replace-one"))
        return replace(subject, over=learners.gradient_walk(subject.features)) if wire else subject

    return made


def _shared_model(epsilon: float, delta: float) -> Subject:
    subject = GaussianSums("without-replacement", Budget(epsilon, delta, "record", "add-remove"), blocks=True)
    return replace(subject, over=shared_model.watch(subject.learner, subject.kernel.size))


def _rounds(name: str) -> Made:
    def made(epsilon: float, delta: float) -> Subject:
        subject = GaussianSums(name, Budget(epsilon, delta, "record", "add-remove"))
        return replace(subject, over=rounds.watch(name, subject.kernel.size))

    return made


MECHANISMS: dict[str, Made] = {
    "discrete-gaussian": _sums("clipd2p", wire=False),
    "normalised": _normalised("decay", wire=False),
    "normalised-automatic": _normalised("automatic", wire=False),
    "normalised-quantile": _normalised("quantile", wire=False),
    "laplace": _records("laplace"),
    "laplace-copies": _records("laplace-copies"),
    "privunit": _records("privunit"),
    "krr-privunit": _records("krr-privunit"),
    "k-norm": _visits("joint", wire=False),
    "stream": lambda epsilon, delta: Streams(Budget(epsilon, delta, "window", "add-remove")),
    "chain": lambda epsilon, delta: Chains(Budget(epsilon, delta, "record", "replace-one")),
    "adad2p": ScaledNoiseSums,
}

LEARNERS: dict[tuple[str, str], Made] = {
    ("clipd2p", "sound"): _sums("clipd2p", wire=True),
    ("adad2p", "sound"): _normalised("quantile", wire=True),
    ("constd2p", "sound"): _sums("constd2p", wire=True),
    ("golf", "sound"): lambda epsilon, delta: _golf(epsilon, delta, paper=False),
    ("golf", "paper"): lambda epsilon, delta: _golf(epsilon, delta, paper=True),
    ("gradient-walk", "sound"): _visits("joint", wire=True),
    ("gradient-walk", "paper"): _visits("copies", wire=True),
    ("without-replacement", "sound"): _shared_model,
    ("push-sum", "sound"): _sums("push-sum", wire=True, promised=False),
    ("pdsl", "sound"): _rounds("pdsl"),
    ("dp-cga", "sound"): _rounds("dp-cga"),
    ("dp-dpsgd", "sound"): _rounds("dp-dpsgd"),
    ("muffliato", "sound"): _rounds("muffliato"),
    ("dp-net-fleet", "sound"): _rounds("dp-net-fleet"),
}
"""By name and fidelity."""
