"""Base classes for the settings in `[learner]`, for all algorithms and for gradient-based algorithms.

Each algorithm defines a settings class in its folder, tagged with the algorithm's name. Together, these classes form a
tagged union, which other packages can extend.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Meta, Struct

from sottovoce.learning.model_names import GRAPH_SHARE, has_graph
from sottovoce.learning.registry import ALGORITHMS, Algorithm
from sottovoce.suggestions import LARGEST, invalid_key

Batch = Annotated[int, Meta(ge=1, le=1_000_000, description="records in a batch")]
BeginsWalk = Annotated[
    bool,
    Meta(description="this device starts the walk or the shared model; true on exactly one device of a fleet"),
]
Clip = Annotated[float, Meta(gt=0, le=LARGEST, description="L2 clip norm C for one privacy unit's contribution")]
Deadline = Annotated[
    float,
    Meta(
        ge=1,
        le=1000,
        description="periods for which a round waits for neighbours before it continues without them",
    ),
]
Fanout = Annotated[int, Meta(ge=1, le=64, description="peers to which a device sends in one cycle, in turn")]
ShareBits = Annotated[
    int,
    Meta(ge=8, le=40, description="sent values are rounded by at most 2^-share_bits; more bits make messages larger"),
]
LongestPeriod = Annotated[
    float,
    Meta(
        ge=0.001,
        le=86_400,
        description="limit in seconds to which the period grows once no private steps are left and the model hardly "
        "changes; if not above period, the period never grows",
    ),
]
Steps = Annotated[
    int,
    Meta(
        ge=0,
        le=1_000_000,
        description="private gradient releases, one per cycle from the first on, which share the budget",
    ),
]
STEPS = 48
"""Default number of steps for learners that do not compute their own."""
Centre = Annotated[
    Literal["private", "none"] | None,
    Meta(
        description="private: each device first releases one noisy sum of its records, and the fleet centres all "
        "records by their mean; the same for the whole fleet; by default private where the settings allow it and "
        "records are enough, and none for group-sgd"
    ),
]
Sampling = Annotated[
    Literal["full", "poisson"],
    Meta(description="full: gradients are computed from all records; poisson: from random batches, which stay secret"),
]
StepDecay = Annotated[
    float, Meta(ge=0, le=1, description="fraction by which the learning rate has decreased, linearly, by the last step")
]


class LearnerSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name"):
    """Settings that all algorithms share.

    Attributes:
        device_keys: keys that each device may set for itself; the whole fleet must agree on the rest.
        fewer_steps: whether a device may take fewer steps than the other devices.
        only_with: keys that have an effect only if another key has one of the listed values.
        draws_batches: whether each batch is a random share of the device's records.
    """

    fewer_steps: ClassVar[bool] = False
    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {}
    draws_batches: ClassVar[bool] = False

    device_keys: ClassVar[frozenset[str]] = frozenset(
        {"begins_walk", "deadline", "fanout", "longest_period", "period", "share_bits", "threads"}
    )

    fidelity: Annotated[
        Literal["sound", "paper"],
        Meta(description="sound: the strongest correct variant; paper: the algorithm exactly as in its paper"),
    ] = "sound"
    model: Annotated[
        Annotated[str, Meta(min_length=1, max_length=4096)] | None,
        Meta(
            description="a model's name, or a file that ends in .onnx and is listed in vault.graphs; by default the "
            "learner's first model"
        ),
    ] = None
    threads: Annotated[int, Meta(ge=1, le=2, description="threads that run a model with a graph")] = 1
    hidden: Annotated[int, Meta(ge=1, le=4096, description="mlp: units in the hidden layer")] = 32
    period: Annotated[float, Meta(ge=0.001, le=86_400, description="seconds between cycles")] = 10.0

    def __post_init__(self) -> None:
        """Check that the learner supports the model and the fidelity."""
        if self.model is not None and (problem := self.algorithm.find_model_problem(self.model)) is not None:
            raise invalid_key("model", problem)
        if self.fidelity == "paper" and self.algorithm.paper_status is None:
            raise invalid_key("fidelity", f"learner {self.name} has only a sound variant; remove this key")

    def with_defaults(self, *, follows: bool) -> Self:
        """Return these settings with the defaults that depend on the rest of the configuration.

        Args:
            follows: whether records are added while the agent runs.
        """
        return self

    def explain_unused(self, key: str) -> str | None:
        """Return why a key has no effect with these settings, and the remedy; None if the key has an effect."""
        if key == "hidden" and self.chosen_model != "mlp":
            return f"{self.chosen_model} has no hidden layer; remove this key, or set learner.model = mlp"
        if key == "threads" and not has_graph(self.chosen_model):
            return f"{self.chosen_model} has no graph; remove this key"
        if key not in self.only_with:
            return None
        required_key, required_values = self.only_with[key]
        value = str(getattr(self, required_key)).lower()
        if value in required_values:
            return None
        alternatives = " or ".join(required_values)
        return f"requires {required_key} = {alternatives}, but {required_key} = {value}; remove this key"

    def hint(self, records: int) -> str | None:
        """Return a sentence that suggests better settings for a fleet with `records` records in total, or None."""
        return None

    @property
    def scores(self) -> str | None:
        """Return the rule by which models are scored on public records; None if models are not scored."""
        return None

    @property
    def name(self) -> str:
        """Return the algorithm's name."""
        return str(self.__struct_config__.tag)

    @property
    def algorithm(self) -> Algorithm:
        """Return the learner's registry entry."""
        return ALGORITHMS[self.name]

    @property
    def is_unproved(self) -> bool:
        """Return whether the learner has no proved ε, in which case its releases are charged as infinite."""
        return self.fidelity == "paper" and self.algorithm.paper_status != "proved"

    @property
    def chosen_model(self) -> str:
        """Return the configured model, or the learner's default."""
        if self.model:
            return self.model
        if self.fidelity == "paper" and self.algorithm.paper_model:
            return self.algorithm.paper_model
        return self.algorithm.models[0]

    @property
    def longest_pause(self) -> float:
        """Return the longest pause between cycles, in seconds, which defaults to the period."""
        return float(getattr(self, "longest_period", self.period))


class GradientSettings(LearnerSettings, frozen=True):
    """Settings shared by all algorithms that take steps along clipped gradients."""

    default_step_size: ClassVar[float] = 20.0

    clip: Clip = 0.5
    step_size: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(
            description="learning rate γ of the first step; by default the learner's (three tenths of it for a model "
            "with a graph), or derived from the noise"
        ),
    ] = None

    @property
    def rate(self) -> float:
        """Return the configured step size, or the learner's default."""
        return self.default_rate if self.step_size is None else self.step_size

    @property
    def default_rate(self) -> float:
        """Return the learner's default step size for the model."""
        return self.default_step_size * (GRAPH_SHARE if has_graph(self.chosen_model) else 1.0)


class ScheduledSettings(GradientSettings, frozen=True):
    """Settings shared by all algorithms that compute each step's gradient from the device's own batch."""

    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {"batch": ("sampling", ("poisson",))}
    draws_batches: ClassVar[bool] = True
    default_step_decay: ClassVar[float] = 0.9

    step_decay: Annotated[
        StepDecay | None,
        Meta(
            description="fraction by which the learning rate has decreased, linearly, by the last step; by default the "
            "learner's own"
        ),
    ] = None
    sampling: Sampling = "full"
    batch: Batch = 64

    @property
    def decay(self) -> float:
        """Return the configured step decay, or the learner's default; 0 if `fidelity = "paper"`."""
        if self.fidelity == "paper":
            return 0.0
        return self.default_step_decay if self.step_decay is None else self.step_decay
