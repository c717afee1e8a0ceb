"""Learner-specific components, built from a configuration for real and simulated agents alike.

Codecs are imported only when a learner is created. A separate vault process never creates a learner, so it does not
need the wire code.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sottovoce.config import AgentConfig
from sottovoce.data import width
from sottovoce.errors import InternalError
from sottovoce.kernels import Kernel, Model, kernel_named
from sottovoce.learning.model_names import has_graph
from sottovoce.learning.settings import LearnerSettings
from sottovoce.privacy.terms import Scaling, Terms
from sottovoce.privacy.vault import Budget, clipped_sum_mu

if TYPE_CHECKING:  # the vault process loads no learner
    from sottovoce.algorithms.state_codec import StateCodec
    from sottovoce.learning.learners import Learner, Provenance, PublishedRecord

Settings = TypeVar("Settings", bound=LearnerSettings)
StoredRecords: TypeAlias = "tuple[PublishedRecord, ...]"
LearnerAndCodec: TypeAlias = "tuple[Learner[Any], StateCodec]"
Limits: TypeAlias = tuple[float, float]
"""How far noise may move a model, and the largest step size γ."""

NOISE_DISTANCE = 120.0
"""Distance by which noise may move a classifier for the best accuracy (docs/explanation/push-sum.md)."""


@dataclass(frozen=True, slots=True)
class SignalAndNoise:
    """The total effect of a device's own steps on a model, computed only from public facts.

    Attributes:
        signal: how far the model moves if all gradients point in the same direction and are limited only by the clip.
        noise: how far noise alone typically moves the model.
    """

    signal: float
    noise: float

    @property
    def inert(self) -> bool:
        """Whether the steps are so short, compared with typical parameters, that no fleet can learn from them."""
        return self.signal < 0.1

    @property
    def devices(self) -> int:
        """The number of averaged releases at which signal equals noise; 0 if there is no signal."""
        return max(1, math.ceil((self.noise / self.signal) ** 2)) if self.signal > 0 else 0

    @property
    def summary(self) -> str:
        """The signal and noise as text."""
        if self.inert:
            return (
                f"over all steps together, this device's records move the model by at most {self.signal:.2g}. This is "
                "negligible, because clipped sums are divided by too large a number: raise learner.step_size or "
                "learner.clip"
            )
        if self.devices == 1:
            return f"influence on the model: at most {self.signal:.3g} from the records, {self.noise:.3g} from noise"
        return (
            f"influence on the model: at most {self.signal:.3g} from the records, {self.noise:.3g} from noise; "
            f"with {self.devices:,} such devices, both are equal; with more, the records outweigh the noise"
        )


def _do_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A device's number of private steps and first step size, with the limits that determined the size.

    Attributes:
        steps: the number of private steps K.
        step_size: γ for the first step.
        limits: the limits from which γ follows; None if it does not depend on the noise.
    """

    steps: int
    step_size: float
    limits: Limits | None

    @property
    def summary(self) -> str:
        """The number of steps and the first step size as text, with the noise limit that applied."""
        chosen = f"{self.steps} private steps; γ = {self.step_size:.3g} in the first"
        if self.limits is None:
            return chosen
        noise_distance, largest = self.limits
        if self.step_size < largest:
            return f"{chosen}, so that noise moves the model by at most {noise_distance:g}"
        return f"{chosen}, the largest for this learner; noise moves the model by less than {noise_distance:g}"


@dataclass(frozen=True, slots=True)
class Family:
    """The components that an agent or a simulation needs to run a learner.

    Attributes:
        model: the public model, which defines the size, the predictions and the loss.
        kernel: the loss that the vault differentiates, if any.
        terms: the vault's terms.
        learner: creates the state machine and its codec from the node id, the provenance and the stored records.
        keeps_records: whether published records are stored on disk.
        enrols_records: whether the ledger stores which records were there at the first start; RecordTerms always do.
        facts: further facts about the algorithm for reports, JSON-serialisable.
        check: raises ConfigError, before a learner is created, if the learner cannot run with this configuration.
        signal: returns a device's signal and noise, or None if they are unknown.
        first_step: returns the number of steps and the first step size, or None for learners without such steps.
        centre: returns whether records are centred by a private mean, and why, as text; None if the learner cannot.
    """

    model: Model
    kernel: Kernel | None
    terms: Terms
    learner: "Callable[[str, Provenance, StoredRecords], LearnerAndCodec]"
    keeps_records: bool = False
    enrols_records: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = _do_nothing
    signal: Callable[[], SignalAndNoise | None] = _do_nothing
    first_step: Callable[[], FirstStep | None] = _do_nothing
    centre: Callable[[], str | None] = _do_nothing


def settings_of(config: AgentConfig, kind: type[Settings]) -> Settings:
    """Return the learner settings as an object of the family's settings type.

    Args:
        config: the agent configuration.
        kind: the family's settings type.

    Raises:
        InternalError: if the settings have a different type.
    """
    if not isinstance(config.learner, kind):
        raise InternalError(f"learner {config.learner.name} has no {kind.__name__}: this is a bug; please report it")
    return config.learner


def build_kernel(config: AgentConfig) -> Kernel:
    """Return the kernel for a model trained by gradients.

    Raises:
        ConfigError: if no kernel of that name fits the data, or its graph is not allowed or cannot run on this machine.
    """
    learner, data = config.learner, config.data
    return kernel_named(
        learner.chosen_model,
        width(data.transform, data.features),
        data.classes,
        learner.hidden,
        graphs=config.vault.graphs,
        threads=learner.threads,
    )


def try_graph(config: AgentConfig) -> None:
    """Test the model's graph, if it has one, in a separate process, before this process is sandboxed.

    Raises:
        ConfigError: if the graph is not allowed, or cannot run on this machine.
    """
    learner = config.learner
    if has_graph(learner.chosen_model):
        from sottovoce.kernels.onnx.loading import load_probed_graph

        load_probed_graph(learner.chosen_model, config.vault.graphs, learner.threads)


def feature_scaling(config: AgentConfig) -> Scaling:
    """Return how features are scaled before they reach the vault."""
    return "declared" if config.data.ranges == "declared" else "training-min-max"


def required_budget(config: AgentConfig) -> Budget:
    """Return the budget that the ledger must have been created with."""
    privacy = config.privacy
    promised = math.isfinite(privacy.epsilon) and config.data.ranges == "declared" and not config.is_unproved
    epsilon = privacy.epsilon if promised else None
    return Budget(epsilon, privacy.delta, config.unit, config.neighbouring)


def noise_bounded_step(
    config: AgentConfig,
    size: int,
    *,
    steps: int,
    clip: float,
    records: float,
    limits: Limits,
    share: float = 1.0,
    mu: float | None = None,
) -> float:
    """Return the step size γ at which noise moves a model by the permitted distance, capped at the largest step size.

    K steps with noise z per clip C move a model with P parameters by γ C z √(K P)/B. For sums over all records, z is
    √K/μ. For random batches with a share q of the records, z follows from μ = q √(K (exp(1/z²) - 1)), the central limit
    theorem of Gaussian differential privacy (Bu, Dong, Long & Su 2020), which is accurate enough for a step size.

    Args:
        config: the agent configuration.
        size: the number of parameters P.
        steps: the number of steps K; 0 for no noise.
        clip: the clip norm C.
        records: the number of records B in a sum.
        limits: the distance by which noise may move the model, and the largest step size, which is used unchanged in a
            noise-free run.
        share: the expected share q of the device's records in a sum.
        mu: the total μ of the steps; by default, that of the whole budget.
    """
    noise_distance, largest = limits
    if math.isinf(config.privacy.epsilon) or steps == 0:
        return largest
    mu = total_mu(config) if mu is None else mu
    noise = math.sqrt(steps) / mu if share == 1 else math.log1p((mu / share) ** 2 / steps) ** -0.5
    return min(noise_distance * records / (clip * noise * math.sqrt(steps * size)), largest)


def total_mu(config: AgentConfig) -> float:
    """Return the total μ that the budget allows for sums whose terms have norm at most 1; ε must be finite."""
    return clipped_sum_mu(config.privacy.epsilon, config.privacy.delta, config.neighbouring)
