"""What is known of every learner by its name: the one table that configuration, command line and agents share."""

from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class LearnerInfo:
    """A learner.

    Attributes:
        family: the file in agent/families that makes its parts.
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


def has_graph(model: str) -> bool:
    """Whether a model of this name is a graph: of this package, or a file."""
    return model in GRAPH_MODELS or model.endswith(GRAPH_SUFFIX)


LEARNERS: dict[str, LearnerInfo] = {
    "clipd2p": LearnerInfo("push_sum", to_the_letter="as-published", step_decay=0.5, regression=True),
    "push-sum": LearnerInfo("push_sum", noiseless=True, regression=True),
    "adad2p": LearnerInfo("push_sum", to_the_letter="refuted", step_decay=0.5, regression=True),
    "constd2p": LearnerInfo("push_sum", to_the_letter="refuted", step_decay=0.5, regression=True),
    "golf": LearnerInfo(
        "golf",
        models=("ridge", "pegasos", "logistic"),
        neighbouring="replace-one",
        to_the_letter="proved",
        record_level=True,
        batch=128,
    ),
    "gradient-walk": LearnerInfo(
        "gradient_walk",
        models=("pegasos", "logistic"),
        neighbouring="replace-one",
        to_the_letter="proved",
        record_level=True,
    ),
    "without-replacement": LearnerInfo(
        "shared_model", to_the_letter="refuted", record_level=True, clip=0.7, step_size=36.0, batch=50, topology="full"
    ),
    "with-replacement": LearnerInfo(
        "shared_model", to_the_letter="refuted", record_level=True, clip=0.7, step_size=100.0, batch=50, topology="full"
    ),
    "pdsl": LearnerInfo("rounds", to_the_letter="as-published", record_level=True, batch=128, topology="full"),
    "dp-dpsgd": LearnerInfo("rounds", to_the_letter="as-published", record_level=True, batch=128, topology="full"),
    "dp-cga": LearnerInfo(
        "rounds", to_the_letter="as-published", record_level=True, step_size=10.0, batch=128, topology="full"
    ),
    "muffliato": LearnerInfo("rounds", to_the_letter="as-published", record_level=True, batch=128, topology="full"),
    "dp-net-fleet": LearnerInfo("rounds", to_the_letter="as-published", record_level=True, batch=128, topology="full"),
    "average": LearnerInfo("average", models=("mean",), unit="device", clip=2.5),
}


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
