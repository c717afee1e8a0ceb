"""What is known of every learner by its name: the one table that configuration, command line and agents share."""

from dataclasses import dataclass, replace
from typing import Literal

from sottovoce.nearest import nearest

GRAPH_MODELS = ("mnist-cnn", "mnist-mlp", "cifar-cnn", "resnet-18", "meter-tcn", "har-cnn")
"""Whose graphs this package holds."""

GRADIENT_MODELS = ("softmax", "logistic", "pegasos", "ridge", "mlp", *GRAPH_MODELS)
"""Of learners of gradients, who also learn the model of any file that ends in `.onnx`."""

GRAPH_SUFFIX = ".onnx"
GRAPH_SHARE = 0.3
"""Of a learner's own step size: at all of it networks of several layers diverge (docs/explanation/rounds.md)."""

GRAPH_TRANSFORM = "standard"
"""What records go through for such a model, unless the configuration says otherwise."""

REGRESSION_MODEL = "ridge"
"""The one without a graph that also predicts a number, where `data.classes` is 1."""


COMMON_KEYS = ("name", "fidelity", "model", "threads", "hidden", "period")
"""Of `[learner]`, for every learner."""

_STEPS = ("steps", "clip", "step_size", "step_decay", "sampling", "batch")
_PUSH_SUM = (*_STEPS, "longest_period", "fanout", "clipping", "clip_decay", "clip_quantile")
_ROUNDS = (*_STEPS, "deadline")
_SHARED_MODEL = ("clip", "step_size", "batch", "passes", "regularisation", "begins_walk", "deadline")


@dataclass(frozen=True, slots=True)
class LearnerInfo:
    """A learner.

    Attributes:
        family: the folder in sottovoce/algorithms that makes its parts.
        keys: of `[learner]`, beside those of every learner, that it has; any other would be ignored.
        models: that it can learn, its own first.
        neighbouring: its own relation. Publishing record by record, or the mean over records, shows how many there are:
            then they are replaced, not added.
        to_the_letter: what its paper's variant is worth; None when there is none beside the sound one.
        record_level: it bounds what a record adds, and nothing larger.
        unit: its own privacy unit.
        clip: L2 threshold of what one unit adds, unless the configuration says otherwise.
        step_size: learning rate of the first step, likewise.
        step_decay: share of it that is lost by the last step, likewise.
        batch: records in a batch, or messages' records for golf, likewise.
        noiseless: it adds no noise, so that nothing can be promised.
        regression: it also learns to predict a number.
        topology: who sends to whom in a testbed, unless it is asked for another; links of rounds and of a shared model
            go both ways.
    """

    family: str
    keys: tuple[str, ...]
    models: tuple[str, ...] = GRADIENT_MODELS
    neighbouring: Literal["add-remove", "replace-one"] = "add-remove"
    to_the_letter: Literal["proved", "as-published", "refuted"] | None = None
    record_level: bool = False
    unit: Literal["record", "window", "device"] = "record"
    clip: float = 0.5
    step_size: float = 20.0
    step_decay: float = 0.9
    batch: int = 64
    noiseless: bool = False
    regression: bool = False
    topology: str = "exponential"

    def learns(self, model: str) -> bool:
        """Whether it can learn a model of this name, or of this file."""
        return model in self.models or (self.models == GRADIENT_MODELS and model.endswith(GRAPH_SUFFIX))


def _of_rounds(*keys: str) -> LearnerInfo:
    """A learner of rounds with keys of its own."""
    return LearnerInfo(
        "rounds", (*_ROUNDS, *keys), to_the_letter="as-published", record_level=True, batch=128, topology="full"
    )


def _of_a_shared_model(step_size: float, *keys: str) -> LearnerInfo:
    """A learner of one model that goes round, with keys of its own."""
    return LearnerInfo(
        "shared_model",
        (*_SHARED_MODEL, *keys),
        to_the_letter="refuted",
        record_level=True,
        clip=0.7,
        step_size=step_size,
        batch=50,
        topology="full",
    )


def has_graph(model: str) -> bool:
    """Whether a model of this name is a graph: of this package, or a file."""
    return model in GRAPH_MODELS or model.endswith(GRAPH_SUFFIX)


LEARNERS: dict[str, LearnerInfo] = {
    "clipd2p": LearnerInfo(
        "push_sum", (*_PUSH_SUM, "sigma"), to_the_letter="as-published", step_decay=0.5, regression=True
    ),
    "push-sum": LearnerInfo("push_sum", _PUSH_SUM, noiseless=True, regression=True),
    "adad2p": LearnerInfo("push_sum", (*_PUSH_SUM, "sigma"), to_the_letter="refuted", step_decay=0.5, regression=True),
    "constd2p": LearnerInfo(
        "push_sum",
        (*_PUSH_SUM, "sigma", "gradient_bound"),
        to_the_letter="refuted",
        step_decay=0.5,
        regression=True,
    ),
    "golf": LearnerInfo(
        "golf",
        ("longest_period", "batch", "perturbation", "capacity"),
        models=("ridge", "pegasos", "logistic"),
        neighbouring="replace-one",
        to_the_letter="proved",
        record_level=True,
        batch=128,
    ),
    "gradient-walk": LearnerInfo(
        "gradient_walk",
        ("longest_period", "budget", "visits", "begins_walk"),
        models=("pegasos", "logistic"),
        neighbouring="replace-one",
        to_the_letter="proved",
        record_level=True,
    ),
    "without-replacement": _of_a_shared_model(36.0, "controller", "release_every"),
    "with-replacement": _of_a_shared_model(100.0),
    "pdsl": _of_rounds("momentum", "shapley", "permutations", "answers"),
    "dp-dpsgd": _of_rounds(),
    "dp-cga": replace(_of_rounds("momentum", "answers"), step_size=10.0),
    "muffliato": _of_rounds("gossip_steps", "chebyshev", "spectral_gap"),
    "dp-net-fleet": _of_rounds("local_steps"),
    "average": LearnerInfo("average", ("clip", "fanout", "longest_period"), models=("mean",), unit="device", clip=2.5),
}


def own_keys(name: str) -> tuple[str, ...]:
    """The keys of `[learner]` that a learner of this name has."""
    return (*COMMON_KEYS, *LEARNERS[name].keys)


def of_another(name: str, key: str) -> str | None:
    """What is wrong with a key of `[learner]` beside a learner of this name: that it is another's."""
    owners = [learner for learner in LEARNERS if key in LEARNERS[learner].keys]
    own = own_keys(name)
    if key in own or not owners:
        return None
    near = nearest(key, own)
    remedy = f"did you mean `{near}`?" if near else f"leave it out; its own keys are {', '.join(own)}"
    return f"learner.{key}: is of {', '.join(owners)}, and learner {name} has no such key; {remedy}"


def relation_of(name: str, fidelity: str, controller: object, release_every: object) -> str:
    """A learner's own neighbouring relation, as its options make it.

    Args:
        name: of the learner.
        fidelity: `sound` or `paper`.
        controller: `learner.controller`.
        release_every: `learner.release_every`.
    """
    learner = LEARNERS[name]
    if name == "without-replacement" and (release_every != 1 or controller == "always-global"):
        return "replace-one"  # chains of disjoint batches have no other bound
    if fidelity == "paper" and learner.family in ("push_sum", "shared_model"):
        return "replace-one"  # batches of a fixed size show how many there are
    return learner.neighbouring
