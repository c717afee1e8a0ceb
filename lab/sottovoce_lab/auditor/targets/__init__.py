"""Audit targets by name: single mechanisms, and every learner as shipped."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sottovoce.kernels.decentralised.clipping import Rule
from sottovoce.kernels.profile import Profile
from sottovoce.learning.registry import loaded_algorithms
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget

from sottovoce_lab.auditor.subject import AUDITED, Subject
from sottovoce_lab.auditor.targets.cells import SMALL, CellMeans
from sottovoce_lab.auditor.targets.chains import Chains
from sottovoce_lab.auditor.targets.normalised import NormalisedSums
from sottovoce_lab.auditor.targets.records import CLASSES, FEATURES, PublishedRecords
from sottovoce_lab.auditor.targets.scaled import ScaledNoiseSums
from sottovoce_lab.auditor.targets.shipped import shipped_learner
from sottovoce_lab.auditor.targets.sums import GaussianSums, mechanism_terms
from sottovoce_lab.auditor.targets.walks import VisitSums

SubjectFactory = Callable[[float, float], Subject]
"""Builds a subject for given ε and δ."""


def _sums(epsilon: float, delta: float) -> Subject:
    return GaussianSums(mechanism_terms(), Budget(epsilon, delta, "record", "add-remove"))


def _normalised_sums(rule: Rule) -> SubjectFactory:
    def create_subject(epsilon: float, delta: float) -> Subject:
        sums = replace(mechanism_terms(), clip=1.0)
        return NormalisedSums(sums, Budget(epsilon, delta, "record", "add-remove"), rule=rule)

    return create_subject


def _cell(epsilon: float, delta: float) -> Subject:
    return CellMeans(MeanTerms(AUDITED, Profile(8, 1.0), SMALL), Budget(epsilon, delta, "device", "add-remove"))


def _records(name: str) -> SubjectFactory:
    def create_subject(epsilon: float, delta: float) -> Subject:
        perturbation = scheme(name, FEATURES, CLASSES, epsilon)
        return PublishedRecords(perturbation, Budget(epsilon, delta, "record", "replace-one"))

    return create_subject


MECHANISMS: dict[str, SubjectFactory] = {
    "discrete-gaussian": _sums,
    "normalised": _normalised_sums("decay"),
    "normalised-automatic": _normalised_sums("automatic"),
    "normalised-quantile": _normalised_sums("quantile"),
    "laplace": _records("laplace"),
    "laplace-copies": _records("laplace-copies"),
    "privunit": _records("privunit"),
    "krr-privunit": _records("krr-privunit"),
    "k-norm": lambda epsilon, delta: VisitSums("joint", Budget(epsilon, delta, "record", "replace-one")),
    "chain": lambda epsilon, delta: Chains(Budget(epsilon, delta, "record", "replace-one")),
    "cell-sum": _cell,
    "adad2p": ScaledNoiseSums,
}

LEARNERS: dict[tuple[str, str], SubjectFactory] = {
    (name, fidelity): partial(shipped_learner, name, fidelity)
    for name, known in loaded_algorithms().items()
    for fidelity in (("sound", "paper") if known.paper_status == "proved" else ("sound",))
}
"""Targets by name and fidelity: all built-in learners, and the paper variants with a proven ε."""
