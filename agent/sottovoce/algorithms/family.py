"""Parts that differ between learners, built from a configuration, for real and simulated agents.

Codecs are imported only when a learner is made: a separate vault makes no learner, and does not need the wire's code.
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

if TYPE_CHECKING:  # the vault's process loads no learner
    from sottovoce.algorithms.state_codec import StateCodec
    from sottovoce.learners import Learner, Provenance, PublishedRecord

Settings = TypeVar("Settings", bound=LearnerSettings)
Kept: TypeAlias = "tuple[PublishedRecord, ...]"
Made: TypeAlias = "tuple[Learner[Any], StateCodec]"
NOISY = 120.0
"""Distance moved by noise at which a classifier performs best (docs/explanation/push-sum.md)."""


@dataclass(frozen=True, slots=True)
class SignalAndNoise:
    """Total effect of a device's own steps on a model, from public facts alone.

    Attributes:
        signal: distance moved if all records point in the same direction and only the clip limits them.
        noise: distance that noise alone typically moves the model.
    """

    signal: float
    noise: float

    @property
    def inert(self) -> bool:
        """Whether nothing can be learnt from any number of devices: a model's parameters are of another magnitude."""
        return self.signal < 0.1

    @property
    def devices(self) -> int:
        """Return the number of releases at which signal equals noise; their mean is less noisy by that factor."""
        return max(1, math.ceil((self.noise / self.signal) ** 2)) if self.signal > 0 else 0

    @property
    def words(self) -> str:
        """Return signal and noise as text."""
        if self.inert:
            return (
                f"over all steps together, its records move the model by {self.signal:.2g} at most, which is "
                "negligible: the divisor of clipped sums is too large; raise learner.step_size or learner.clip"
            )
        if self.devices == 1:
            return f"influence on the model: at most {self.signal:.3g} from its records, {self.noise:.3g} from noise"
        return (
            f"influence on the model: at most {self.signal:.3g} from its records, {self.noise:.3g} from noise; "
            f"with {self.devices:,} such devices records and noise are equal, with more the records prevail"
        )


def _do_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Family:
    """The parts of a learner.

    Attributes:
        model: public model: its size, its predictions, its loss.
        kernel: the loss that the vault differentiates, if any.
        terms: terms of the vault.
        learner: function of (node id, provenance, stored published records) that makes the state machine and its codec.
        keeps_records: whether published records are to be kept on the disk.
        facts: more about the algorithm for reports, JSON-ready.
        check: raises ConfigError, before a learner is made, for a configuration that the learner cannot run.
        signal: a device's signal and noise; None if they are not known.
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
    """Return the learner's settings as an object of its family's type.

    Args:
        config: configuration of an agent.
        kind: the family's settings.
    """
    if not isinstance(config.learner, kind):
        raise InternalError(f"learner {config.learner.name} has no {kind.__name__}: report this")
    return config.learner


def kernel_of(config: AgentConfig) -> Kernel:
    """Return the kernel of a model that is trained by its gradient.

    Raises:
        ConfigError: if no kernel of that name fits the data, or its graph must not be loaded or does not run here.
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
    """Try the model's graph, if there is one, in a separate process, before this process confines itself.

    Raises:
        ConfigError: if it may not be loaded, or does not run here.
    """
    learner = config.learner
    if has_graph(learner.chosen_model):
        from sottovoce.kernels.onnx.loading import load_probed_graph

        load_probed_graph(learner.chosen_model, config.vault.graphs, learner.threads)


def records_of(raw: Records, transform: TransformName, bounds: Bounds | None) -> Records:
    """Return records in the vault's form: clamped to their declared bounds, each transformed by itself."""
    prepared = f"transform {transform}" + (
        "" if bounds is None else f" within declared bounds of {len(bounds[0])} columns"
    )
    return replace(identified(raw), features=apply(transform, raw.features, bounds), prepared=prepared)


def scaling_of(config: AgentConfig) -> Scaling:
    """Return the scaling of features before they reach the vault."""
    return "declared" if config.data.ranges == "declared" else "training-min-max"


def budget_of(config: AgentConfig) -> Budget:
    """Return the budget for which the ledger must have been made."""
    privacy = config.privacy
    promised = math.isfinite(privacy.epsilon) and config.data.ranges == "declared" and not config.unproved
    epsilon = privacy.epsilon if promised else None
    return Budget(epsilon, privacy.delta, config.unit, config.neighbouring)


def noise_bounded_step(
    config: AgentConfig, size: int, *, steps: int, clip: float, records: float, noisy: float, largest: float
) -> float:
    """Step size γ with which the noise moves a model by `noisy`, or `largest` if that is less.

    K steps of noise √K/μ per clip C move a model of P numbers by γ C K √P/(B μ).

    Args:
        config: configuration of an agent.
        size: P.
        steps: K; 0 for no noise.
        clip: C.
        records: B, records in a sum.
        noisy: distance that noise moves the model.
        largest: largest step size, which is also the step size without noise.
    """
    if math.isinf(config.privacy.epsilon) or steps == 0:
        return largest
    mu = gaussian_mu(config.privacy.epsilon, config.privacy.delta)
    return min(noisy * records * mu / (steps * math.sqrt(size) * clip), largest)
