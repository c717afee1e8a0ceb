"""Settings for one model that visits all devices."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta
from sottovoce.plugin import Batch, BeginsWalk, Clip, Deadline, GradientSettings, invalid_key
from typing_extensions import override

Controller = Literal["schedule", "deep-q", "always-global", "always-local"]


class SharedModelSettings(GradientSettings, frozen=True):
    """Settings shared by both learners with one shared model."""

    default_batch: ClassVar[int] = 50
    tuned_batch: ClassVar[int] = 50
    """Batch size for which the learner's default step size was tuned."""

    clip: Clip = 0.7
    batch: Annotated[
        Batch | None, Meta(description="records per batch; by default 50, or the best number for sums")
    ] = None
    passes: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="without-replacement: passes over the records; by default 3 for sums, otherwise 1"),
    ] = None
    regularisation: Annotated[
        float, Meta(ge=0, le=1, description="without-replacement: λ; above 0, the loss is strongly convex")
    ] = 0.0
    begins_walk: BeginsWalk = False
    deadline: Deadline = 3.0

    @property
    def batch_size(self) -> int:
        """The batch size b, as configured or as in the paper."""
        return self.default_batch if self.batch is None else self.batch

    @property
    def control(self) -> tuple[Controller, int]:
        """The rule that decides which steps are global, and a schedule's number of steps per global step."""
        return "schedule", 1


class WithReplacementSettings(SharedModelSettings, frozen=True, tag="with-replacement"):
    """Settings for SGD with replacement, in which every step is global."""

    default_step_size: ClassVar[float] = 100.0

    @override
    def explain_unused(self, key: str) -> str | None:
        if key in ("passes", "regularisation"):
            return f"learner {self.name} samples with replacement and has no passes; remove the key"
        return super().explain_unused(key)


class WithoutReplacementSettings(SharedModelSettings, frozen=True, tag="without-replacement"):
    """Settings for SGD without replacement."""

    default_step_size: ClassVar[float] = 36.0
    tuned_batch: ClassVar[int] = 2000

    controller: Annotated[
        Controller,
        Meta(description="rule that decides whether a step is local or global; deep-q only with fidelity = paper"),
    ] = "schedule"
    release_every: Annotated[
        int,
        Meta(ge=1, le=4096, description="schedule: steps per global step; only global steps are released"),
    ] = 1

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {"release_every": ("controller", ("schedule",))}

    def __post_init__(self) -> None:
        """Check that the fidelity allows the controller."""
        super().__post_init__()
        if self.fidelity == "sound" and self.controller == "deep-q":
            raise invalid_key(
                "controller", "deep-q reveals values that are not charged to the budget; it requires fidelity = paper"
            )

    @property
    @override
    def control(self) -> tuple[Controller, int]:
        return self.controller, self.release_every
