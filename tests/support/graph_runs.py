"""Graphs of declared models, as ONNX Runtime runs them on one thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sottovoce.kernels.onnx
from numpy.typing import NDArray
from onnx import ModelProto
from sottovoce.kernels.onnx.facts import KEY, GraphFacts, ParameterFacts, read_facts
from sottovoce.kernels.onnx.session import onnxruntime
from sottovoce_lab.models.build import build_graph
from sottovoce_lab.models.declaration import Declaration, parse_declaration, read_declaration

STOCK = Path(sottovoce.kernels.onnx.__file__).parent / "stock"
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Labels = NDArray[np.int64] | Floats


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of examples float32[B, d], with labels int64[B] or targets float32[B]."""

    features: Floats
    labels: Labels

    def __getitem__(self, rows: Any) -> "Batch":
        return Batch(self.features[rows], self.labels[rows])


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a call."""

    loss: float
    predictions: NDArray[Any]
    gradient_sum: Doubles


class Run:
    """Graph of a model, built and loaded.

    Args:
        declared: a declaration, as TOML text or parsed.
        options: further arguments of build_graph.
    """

    def __init__(self, declared: str | Declaration, **options: Any) -> None:
        self.declaration = parse_declaration(declared, "test") if isinstance(declared, str) else declared
        self.model = build_graph(self.declaration, **options)
        self.session = session(self.model)

    @property
    def facts(self) -> GraphFacts:
        """Facts that the file states about itself."""
        return facts(self.model)

    def __call__(
        self, parameters: Doubles, batch: Batch, clip: float = 1.0, mask: NDArray[np.bool_] | None = None
    ) -> Outputs:
        """Call the graph once, with parameters float64[P]."""
        feeds = {
            "parameters": parameters.astype(np.float32),
            "features": batch.features,
            "labels": batch.labels,
            "mask": np.ones(len(batch.features), dtype=np.bool_) if mask is None else mask,
            "clip": np.array(clip, dtype=np.float64),
        }
        loss, predictions, gradient_sum = self.session.run(["loss", "predictions", "gradient_sum"], feeds)
        return Outputs(float(loss), predictions, gradient_sum)


def stock_names() -> list[str]:
    """Return the names of the models that come with the package."""
    return sorted(path.stem for path in STOCK.glob("*.toml"))


def stock(name: str) -> Declaration:
    """Read a stock model, which comes with the package."""
    return read_declaration(STOCK / f"{name}.toml")


def session(model: ModelProto) -> Any:
    """Return an onnxruntime.InferenceSession on one thread."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def facts(model: ModelProto) -> GraphFacts:
    """Return the facts that a graph states about itself."""
    (text,) = (entry.value for entry in model.metadata_props if entry.key == KEY)
    return read_facts(text, "test")


def draw_parameters(model: Declaration, seed: int) -> Doubles:
    """Draw parameters, float64[P], by their initial distributions; constants vary, so that they are not all equal."""
    random = np.random.default_rng(seed)

    def draw_tensor(tensor: ParameterFacts) -> Doubles:
        if tensor.law == "uniform":
            return random.uniform(-tensor.value, tensor.value, tensor.size)
        return tensor.value + random.uniform(-0.3, 0.3, tensor.size)

    return np.concatenate([draw_tensor(tensor) for tensor in model.network.parameters])


def batch(model: Declaration, examples: int, seed: int, scale: float = 1.0) -> Batch:
    """Draw normal features, and labels of all classes or normal targets."""
    random = np.random.default_rng(seed)
    features = random.normal(0, scale, (examples, model.features)).astype(np.float32)
    if model.classes == 1:
        return Batch(features, random.normal(size=examples).astype(np.float32))
    return Batch(features, random.integers(0, model.classes, examples))


def declared(
    layers: Sequence[Mapping[str, Any]], shape: tuple[int, ...], classes: int = 3, loss: str = "softmax"
) -> str:
    """Write a declaration's TOML from its tables."""
    head = f'name = "test"\ninput = {list(shape)}\nclasses = {classes}\nloss = "{loss}"\nlayers = '
    return head + _toml(layers) + "\n"


def _toml(value: Any) -> str:
    match value:
        case Mapping():
            return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return str(value)
