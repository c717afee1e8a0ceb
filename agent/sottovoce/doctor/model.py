"""Check that this machine can run the configured model."""

from collections.abc import Iterator

from sottovoce.agent.runnable import runnable_family
from sottovoce.doctor.finding import Finding, ok, warning
from sottovoce.doctor.subject import Subject

_MANY = 1000  # devices; larger fleets are assumed to be planned


def model(subject: Subject) -> Iterator[Finding]:
    """Check that an agent could start with this model, transform, data and budget, without reading a record.

    Raises:
        SottovoceError: the error with which the agent would end.
    """
    if subject.config is None:
        return
    family, learner = runnable_family(subject.config), subject.config.learner
    heard = family.signal()
    if heard is not None and (heard.inert or heard.devices > _MANY):
        yield warning(
            f"inert: {heard.words}",
            "a larger privacy.epsilon, a smaller privacy.unit or fewer learner.steps: `sottovoce privacy explain` says "
            "what each gives",
        )
    yield ok(f"{learner.chosen_model} of {learner.name}, {family.model.size:,} numbers: runs here")
