"""Settings for `golf`: gossip learning on perturbed records."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta
from sottovoce.plugin import MECHANISM, LearnerSettings, LongestPeriod, installed_plugins, invalid_key, suggest_name

_PERTURBATIONS = ("best", "laplace", "privunit", "krr-privunit")


class GolfSettings(LearnerSettings, frozen=True, tag="golf"):
    """Settings for `golf`."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **LearnerSettings.only_with,
        "batch": ("mixing", ("records",)),
        "capacity": ("mixing", ("records",)),
    }

    longest_period: LongestPeriod = 3_600.0
    mixing: Annotated[
        Literal["records", "push-sum"],
        Meta(
            description="records: devices send records, signed by their owners; push-sum: sums over records, for "
            "trusted fleets with more records than a device can store"
        ),
    ] = "records"
    batch: Annotated[int, Meta(ge=1, le=4096, description="most published records per message")] = 128
    perturbation: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9-]{0,31}$",
            description="scheme of perturbation: best (by a public rule), laplace, privunit, krr-privunit, or that of "
            "another package",
        ),
    ] = "best"
    capacity: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="published records that a device stores, the same for the whole fleet",
        ),
    ] = 4096

    def __post_init__(self) -> None:
        """Check that `perturbation` is known and fits the fidelity, and that the model supports `mixing`."""
        super().__post_init__()
        known = [*_PERTURBATIONS, *installed_plugins(MECHANISM)]
        if self.perturbation not in known:
            nearest = suggest_name(self.perturbation, known)
            remedy = f"did you mean {nearest}?" if nearest else f"choose one of {', '.join(known)}"
            raise invalid_key("perturbation", f"unknown perturbation; {remedy}")
        if self.fidelity == "paper" and self.perturbation != "best":
            raise invalid_key("perturbation", "the paper's variant has only one perturbation; remove the key")
        if self.mixing == "push-sum":
            self._check_sums()

    def hint(self, records: int) -> str | None:
        """Return a hint if a device cannot store all of the fleet's records; see LearnerSettings.hint."""
        if self.mixing != "records" or self.chosen_model != "ridge" or records <= self.capacity:
            return None
        return (
            f"a device stores {self.capacity} of the fleet's {records} records: raise learner.capacity to store more, "
            'or, if all members are trusted, set learner.mixing = "push-sum" to learn from all of them'
        )

    def _check_sums(self) -> None:
        if self.fidelity == "paper" or self.chosen_model != "ridge":
            raise invalid_key(
                "mixing",
                'only ridge regression can be fitted from sums; set mixing = "records", or remove learner.model',
            )

    @property
    def is_unproved(self) -> bool:
        """Whether no ε is proved, which is also the case for any mechanism from another package."""
        return super().is_unproved or self.perturbation not in _PERTURBATIONS
