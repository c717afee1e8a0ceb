"""Privacy statements: an ε with the protected unit, the adversary, the mechanism and the status of the proof."""

from dataclasses import asdict, dataclass
from enum import StrEnum


class Status(StrEnum):
    """Status of a guarantee's proof."""

    PROVED = "proved"
    AS_PUBLISHED = "as-published"
    REFUTED = "refuted"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PrivacyStatement:
    """The guarantee for a release and for the run that it belongs to.

    Attributes:
        unit: the privacy unit, for example `record`.
        neighbouring: `add-remove` or `replace-one`.
        mechanism: description of the mechanism and its parameters.
        composition: rule by which releases add up to `epsilon`.
        epsilon: total ε of everything that the budget allows; None if there is no guarantee.
        delta: total δ of everything that the budget allows.
        threat_model: the adversary's view.
        status: proved, as-published, refuted, or none.
        reason: the reason for the status, with a reference to the relevant section or page.
        epsilon_alone: ε at the same δ if all other devices collude; None if ε does not depend on them, or if there is
            no ε.
    """

    unit: str
    neighbouring: str
    mechanism: str
    composition: str
    epsilon: float | None
    delta: float | None
    threat_model: str
    status: Status
    reason: str
    epsilon_alone: float | None = None

    def as_dict(self) -> dict[str, str | float | None]:
        """Return the statement as a JSON-ready dictionary."""
        fields = {**asdict(self), "status": self.status.value}
        if self.epsilon_alone is None:
            del fields["epsilon_alone"]
        return fields
