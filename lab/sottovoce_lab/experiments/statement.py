"""The privacy statement that a simulated run would have if its noise were real."""

from sottovoce.errors import PrivacyError
from sottovoce.privacy.api import PrivacyStatement, Status

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.experiments.settings import Settings

_THREAT_MODEL = (
    "local: anyone who reads every message of a device, including any coalition of other devices; the device itself, "
    "its disk and the fact that it takes part are not hidden"
)
_RECORD_MECHANISMS = {
    "laplace-copies": "discrete Laplace on each one-vs-all copy of the record, at ε/copies each",
    "laplace": "discrete Laplace on the record and its label as one tensor",
    "privunit": "PrivUnit on the record and its label as one tensor",
    "krr-privunit": "randomised response on the label, PrivUnit on the record",
}
_REFUTED = (
    "the feature ranges are computed from the training set and known to every device, so one record changes what all "
    "other devices publish, and no ε holds; docs/reference/experiments.md"
)
_PROVED = "one release has pure ε, and everything learnt from it is post-processing; docs/reference/experiments.md"


def build_statement(fleet: Fleet) -> PrivacyStatement:
    """Return a simulated run's privacy statement.

    Raises:
        PrivacyError: if no ε holds for the run and the settings do not allow a run without ε.
    """
    settings = fleet.settings
    if settings.is_noiseless:
        return _statement(
            "none: exact records", "none", None, Status.NONE, "the noiseless baseline: anyone can read the records"
        )
    is_walk = settings.learner.name == "gradient-walk"
    mechanism = _walk_mechanism(settings) if is_walk else _RECORD_MECHANISMS[fleet.scheme.name]
    composition = (
        "sequential over the visits to a device, whose number is public"
        if is_walk
        else "one release per record, one record per device"
    )
    if not fleet.training_bounds:
        statement = _statement(mechanism, composition, settings.epsilon, Status.PROVED, _PROVED)
        return statement.without_proof(fleet.unproved)
    if not settings.privacy.allow_unproved:
        raise PrivacyError(
            "data.bounds = training: ranges computed from the training set are a release charged to no budget, so "
            "no ε holds; use the declared ranges with data.bounds=declared, or epsilon=inf, or "
            "privacy.allow_unproved=true"
        )
    return _statement(mechanism, composition, settings.epsilon, Status.REFUTED, _REFUTED)


def _statement(
    mechanism: str, composition: str, epsilon: float | None, status: Status, reason: str
) -> PrivacyStatement:
    return PrivacyStatement(
        unit="record",
        neighbouring="replace-one",
        mechanism=mechanism,
        composition=composition,
        epsilon=epsilon,
        delta=None if epsilon is None else 0.0,
        threat_model=_THREAT_MODEL,
        status=status,
        reason=reason,
    )


def _walk_mechanism(settings: Settings) -> str:
    learner = settings.learner
    visits = "one visit" if learner.budget == "once" else f"{learner.visits} visits, {learner.budget}"
    law = "discrete Laplace on each copy" if settings.fidelity == "paper" else "discrete max-norm Laplace on all copies"
    return f"{law} of the gradient sum over a device's records ({learner.batch} each), {visits}"
