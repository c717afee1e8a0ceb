"""Privacy statements: an ε, with the protected unit, the adversary, the mechanism, and the status of its proof."""

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
    """Guarantee behind one release and behind the run it belongs to.

    Attributes:
        unit: the privacy unit, for example `record`.
        neighbouring: `add-remove` or `replace-one`.
        mechanism: the mechanism's name with its parameters, in words.
        composition: rule by which releases add up to `epsilon`.
        epsilon: total ε of everything the budget allows; None when nothing is promised.
        delta: total δ of everything the budget allows.
        threat_model: the adversary's view.
        status: proved, as-published, refuted, or none.
        reason: the reason for the status, with the section or page to read.
        epsilon_alone: ε at the same δ if all other devices collude; None if it does not depend on them, or there
            is none.
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
        said = {**asdict(self), "status": self.status.value}
        return said if self.epsilon_alone is not None else {key: said[key] for key in said if key != "epsilon_alone"}
