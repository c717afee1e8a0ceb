"""Settings of gossip learning on perturbed records."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from sottovoce.invalid_key import invalid_key
from sottovoce.learner_settings import LearnerSettings, LongestPeriod
from sottovoce.plugins import MECHANISM, installed_plugins
from sottovoce.suggestions import suggestion

_PERTURBATIONS = ("best", "laplace", "privunit", "krr-privunit")


class GolfSettings(LearnerSettings, frozen=True, tag="golf"):
    """Settings of `golf`."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **LearnerSettings.only_with,
        "batch": ("mixing", ("records",)),
        "capacity": ("mixing", ("records",)),
    }

    longest_period: LongestPeriod = 3_600.0
    mixing: Annotated[
        Literal["records", "push-sum"],
        Meta(
            description="what is sent: records, each signed by its owner; push-sum, shares of the sums over them, for "
            "fleets of more records than a device can keep, whose members are trusted"
        ),
    ] = "records"
    batch: Annotated[int, Meta(ge=1, le=4096, description="published records in one message, at most")] = 128
    perturbation: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9-]{0,31}$",
            description="how records are perturbed: best, by the public rule; laplace, privunit, krr-privunit, or one "
            "that another package brings",
        ),
    ] = "best"
    capacity: Annotated[
        int, Meta(ge=1, le=1_000_000, description="published records kept, the same for the whole fleet")
    ] = 4096

    def __post_init__(self) -> None:
        """Check `perturbation`, for which the paper has a single value, and `mixing`."""
        super().__post_init__()
        known = [*_PERTURBATIONS, *installed_plugins(MECHANISM)]
        if self.perturbation not in known:
            near = suggestion(self.perturbation, known)
            what = f"did you mean {near}?" if near else f"choose one of {', '.join(known)}"
            raise invalid_key("perturbation", f"unknown perturbation; {what}")
        if self.fidelity == "paper" and self.perturbation != "best":
            raise invalid_key("perturbation", "the paper's variant has only one perturbation; leave it out")
        if self.mixing == "push-sum":
            self._check_sums()

    def hint(self, records: int) -> str | None:
        """See LearnerSettings.hint: whether a device cannot keep all records of the fleet."""
        if self.mixing != "records" or self.chosen_model != "ridge" or records <= self.capacity:
            return None
        return (
            f"a device keeps {self.capacity} of the fleet's {records} records: learner.capacity keeps more, and if all "
            'members are trusted, learner.mixing = "push-sum" learns from all'
        )

    def _check_sums(self) -> None:
        if self.fidelity == "paper" or self.chosen_model != "ridge":
            raise invalid_key(
                "mixing",
                'only ridge is fitted from sums; write mixing = "records", or leave learner.model out',
            )

    @property
    def unproved(self) -> bool:
        """Whether no ε is proved, which is also the case for a mechanism from another package."""
        return super().unproved or self.perturbation not in _PERTURBATIONS
