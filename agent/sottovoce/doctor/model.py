"""Check that the configured model can run on this machine."""

from collections.abc import Iterator

from sottovoce.agent.preconditions import runnable_family
from sottovoce.doctor.finding import Finding, ok, warning
from sottovoce.doctor.subject import Subject

_MAX_DEVICES = 1000  # warn if more devices are needed; owners of larger fleets are assumed to have planned for this


def model(subject: Subject) -> Iterator[Finding]:
    """Check that an agent could start with this model, transform, data and budget. Does not read any record.

    Raises:
        SottovoceError: if the agent would end with this error.
    """
    if subject.config is None:
        return
    family, learner = runnable_family(subject.config), subject.config.learner
    signal = family.signal()
    if signal is not None and (signal.inert or signal.devices > _MAX_DEVICES):
        yield warning(
            f"inert: {signal.words}",
            "use a larger privacy.epsilon, a smaller privacy.unit or fewer learner.steps: `sottovoce privacy explain` "
            "shows the effect",
        )
    yield ok(f"{learner.chosen_model} with {learner.name}, {family.model.size:,} parameters: runs here")
