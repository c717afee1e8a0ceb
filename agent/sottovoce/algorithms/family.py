"""The parts in which learners differ. They are built from a configuration, for real and simulated agents.

Codecs are imported only when a learner is created. A separate vault process creates no learner, so it does not need the
wire code.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sottovoce.config import AgentConfig
from sottovoce.data import Bounds, Records, TransformName, apply, identified, width
from sottovoce.errors import InternalError
from sottovoce.kernels import Kernel, Model, kernel_named
from sottovoce.learner_settings import LearnerSettings
from sottovoce.model_names import has_graph
from sottovoce.vault import Budget, Scaling, Terms, gaussian_mu

if TYPE_CHECKING:  # the vault process loads no learner
    from sottovoce.algorithms.state_codec import StateCodec
    from sottovoce.learners import Learner, Provenance, PublishedRecord

Settings = TypeVar("Settings", bound=LearnerSettings)
Kept: TypeAlias = "tuple[PublishedRecord, ...]"
Made: TypeAlias = "tuple[Learner[Any], StateCodec]"
NOISY = 120.0
"""Distance moved by noise at which a classifier performs best (docs/explanation/push-sum.md)."""


@dataclass(frozen=True, slots=True)
class SignalAndNoise:
    """Total effect of a device's own steps on a model, computed only from public facts.

    Attributes:
        signal: distance that the model moves if all records point in the same direction and only the clip limits them.
        noise: distance that noise alone typically moves the model.
    """

    signal: float
    noise: float

    @property
    def inert(self) -> bool:
        """Whether steps are too short, compared with typical parameters, to learn from any number of devices."""
        return self.signal < 0.1

    @property
    def devices(self) -> int:
        """Number of releases at which signal equals noise, since averaging reduces noise; 0 if there is no signal."""
        return max(1, math.ceil((self.noise / self.signal) ** 2)) if self.signal > 0 else 0

    @property
    def words(self) -> str:
        """Signal and noise as text."""
        if self.inert:
            return (
                f"over all steps together, this device's records move the model by at most {self.signal:.2g}. This is "
                "negligible: the divisor of clipped sums is too large; raise learner.step_size or learner.clip"
            )
        if self.devices == 1:
            return f"influence on the model: at most {self.signal:.3g} from the records, {self.noise:.3g} from noise"
        return (
            f"influence on the model: at most {self.signal:.3g} from the records, {self.noise:.3g} from noise; "
            f"with {self.devices:,} such devices the two are equal, and with more the records prevail"
        )


def _do_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Family:
    """The parts of a learner.

    Attributes:
        model: the public model, which defines the size, predictions and loss.
        kernel: the loss that the vault differentiates, if any.
        terms: terms of the vault.
        learner: function of (node id, provenance, stored published records) that makes the state machine and its codec.
        keeps_records: whether published records are stored on disk.
        facts: additional facts about the algorithm for reports, JSON-serialisable.
        check: raises ConfigError, before a learner is created, if the learner cannot run with the configuration.
        signal: function that returns a device's signal and noise, or None if they are not known.
    """

    model: Model
    kernel: Kernel | None
    terms: Terms
    learner: "Callable[[str, Provenance, Kept], Made]"
    keeps_records: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = _do_nothing
    signal: Callable[[], SignalAndNoise | None] = _do_nothing


def settings_of(config: AgentConfig, kind: type[Settings]) -> Settings:
    """Return the learner settings as an object of the family's settings type.

    Args:
        config: configuration of an agent.
        kind: settings type of the family.

    Raises:
        InternalError: if the settings have another type.
    """
    if not isinstance(config.learner, kind):
        raise InternalError(f"learner {config.learner.name} has no {kind.__name__}: report this")
    return config.learner


def kernel_of(config: AgentConfig) -> Kernel:
    """Return the kernel of a model that is trained by its gradient.

    Raises:
        ConfigError: if no kernel of that name fits the data, or if its graph may not be loaded or cannot run here.
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
    """Test the model's graph, if there is one, in a separate process, before this process is sandboxed.

    Raises:
        ConfigError: if the graph may not be loaded, or cannot run on this machine.
    """
    learner = config.learner
    if has_graph(learner.chosen_model):
        from sottovoce.kernels.onnx.loading import load_probed_graph

        load_probed_graph(learner.chosen_model, config.vault.graphs, learner.threads)


def records_of(raw: Records, transform: TransformName, bounds: Bounds | None) -> Records:
    """Return records in the form that the vault uses: clamped to the declared bounds, each transformed separately."""
    prepared = f"transform {transform}" + (
        "" if bounds is None else f" within declared bounds of {len(bounds[0])} columns"
    )
    return replace(identified(raw), features=apply(transform, raw.features, bounds), prepared=prepared)


def scaling_of(config: AgentConfig) -> Scaling:
    """Return the scaling of features before they reach the vault."""
    return "declared" if config.data.ranges == "declared" else "training-min-max"


def budget_of(config: AgentConfig) -> Budget:
    """Return the budget for which the ledger must have been created."""
    privacy = config.privacy
    promised = math.isfinite(privacy.epsilon) and config.data.ranges == "declared" and not config.unproved
    epsilon = privacy.epsilon if promised else None
    return Budget(epsilon, privacy.delta, config.unit, config.neighbouring)


def noise_bounded_step(
    config: AgentConfig, size: int, *, steps: int, clip: float, records: float, noisy: float, largest: float
) -> float:
    """Return the step size γ at which noise moves a model by `noisy`, or `largest` if that is smaller.

    K steps with noise √K/μ per clip C move a model with P parameters by γ C K √P/(B μ).

    Args:
        config: configuration of an agent.
        size: number of parameters P.
        steps: number of steps K; 0 for no noise.
        clip: clip norm C.
        records: number of records B in a sum.
        noisy: distance that noise may move the model.
        largest: maximum step size, which is also the step size without noise.
    """
    if math.isinf(config.privacy.epsilon) or steps == 0:
        return largest
    mu = gaussian_mu(config.privacy.epsilon, config.privacy.delta)
    return min(noisy * records * mu / (steps * math.sqrt(size) * clip), largest)
