"""Import ONNX Runtime without telemetry, and run graphs, checked against their descriptions, on chunks of examples.

Since version 1.29, ONNX Runtime builds write a device identifier to the home directory and report usage to the vendor,
unless the environment disables this before the module is first imported.
"""

import math
import os
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError, InternalError
from sottovoce.kernels.onnx.facts import KEY, GraphFacts, read_facts
from sottovoce.kernels.onnx.forward import prune_to_outputs

MIN_VERSION = (1, 24)
_INSTALL = "install sottovoce[onnx] for this device, or choose a model without a graph, such as mlp"


def onnxruntime() -> Any:
    """Import and return the `onnxruntime` module. All other code must call this function instead of importing it.

    Raises:
        ConfigError: if the module is missing, cannot be loaded, or is too old.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        module = import_module("onnxruntime")
        version = str(module.__version__)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"learner.model: ONNX Runtime is missing or cannot be loaded ({error}): {_INSTALL}"
        ) from error
    if _numbers(version) < MIN_VERSION:
        minimum = ".".join(map(str, MIN_VERSION))
        raise ConfigError(f"learner.model: ONNX Runtime {version} is older than {minimum}: {_INSTALL}")
    module.disable_telemetry_events()
    return module


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two components of a version as numbers, with 0 for a component that is not a number."""
    components = version.split(".")[:2]
    return tuple(int(word) if word.isdecimal() else 0 for word in components)


_FATAL_ONLY = 4  # log only fatal errors; other errors are raised, and log output may reveal record values
_REMEDY = "build the graph file with `sottovoce model build`"
_Shape = tuple[int | None, ...]  # None means the number of examples


@dataclass(frozen=True, slots=True)
class Chunk:
    """Examples for one call of a graph.

    Attributes:
        features: float32[B, d].
        labels: int64[B], or float32[B] in a regression.
        mask: bool[B]; rows where it is False contribute nothing.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64] | NDArray[np.float32]
    mask: NDArray[np.bool_]


class GraphSession:
    """An ONNX Runtime session for one graph.

    Args:
        model: the content of the graph file. No other file is read: a graph that stores data in other files is refused.
        origin: the graph's name in the configuration, for error messages.
        threads: the number of threads, 1 or 2.

    Raises:
        ConfigError: if ONNX Runtime is missing or cannot load the graph, or the graph is not a Sottovoce model.
    """

    def __init__(self, model: bytes, origin: str, threads: int = 1) -> None:
        self._model, self._origin, self._threads = model, origin, threads
        self._session = _open_session(model, origin, threads)
        description = self._session.get_modelmeta().custom_metadata_map.get(KEY)
        if description is None:
            raise ConfigError(f"learner.model: {origin}: the file has no description ({KEY} is missing): {_REMEDY}")
        self.facts: GraphFacts = read_facts(description, origin)
        self._check()

    def loss(self, parameters: NDArray[np.float32], chunk: Chunk) -> float:
        """Return the sum of the losses over the chunk's examples."""
        return float(self._run(self._forward, "loss", parameters, chunk))

    def predictions(self, parameters: NDArray[np.float32], chunk: Chunk) -> NDArray[Any]:
        """Return the predicted labels, int64[B], or in a regression the predicted values, float32[B]."""
        predictions: NDArray[Any] = self._run(self._forward, "predictions", parameters, chunk)
        return predictions

    def gradient_sum(self, parameters: NDArray[np.float32], chunk: Chunk, clip: float) -> NDArray[np.float64]:
        """Return the sum of clipped gradients over the chunk's examples, float64[P]."""
        gradient_sum: NDArray[np.float64] = self._run(self._session, "gradient_sum", parameters, chunk, clip)
        if gradient_sum.shape != (self.facts.size,):
            raise InternalError(
                f"learner.model: {self._origin}: the gradient does not have the declared shape: "
                "this is a bug; please report it"
            )
        return gradient_sum

    @cached_property
    def _forward(self) -> Any:
        """A session for the graph without its gradient. Predictions and losses need this session; a vault does not."""
        return _open_session(prune_to_outputs(self._model, ("loss", "predictions")), self._origin, self._threads)

    def _run(
        self, session: Any, output: str, parameters: NDArray[np.float32], chunk: Chunk, clip: float = math.inf
    ) -> Any:
        inputs = {
            "parameters": parameters,
            "features": chunk.features,
            "labels": chunk.labels,
            "mask": chunk.mask,
            "clip": np.array(clip),
        }
        try:
            return session.run([output], inputs)[0]
        except Exception:  # noqa: BLE001 - the runtime's exceptions have no common base class
            # The exception text may contain a value computed from a record.
            raise InternalError(
                f"learner.model: {self._origin} failed while running: this is a bug; please report it"
            ) from None

    def _check(self) -> None:
        """Check that inputs and outputs have the names, types and sizes that the graph's description requires."""
        facts, origin = self.facts, self._origin
        label = "float" if facts.classes == 1 else "int64"
        inputs: dict[str, tuple[str, _Shape]] = {
            "parameters": ("float", (facts.size,)),
            "features": ("float", (None, facts.features)),
            "labels": (label, (None,)),
            "mask": ("bool", (None,)),
            "clip": ("double", ()),
        }
        outputs: dict[str, tuple[str, _Shape]] = {
            "loss": ("double", ()),
            "predictions": (label, (None,)),
            "gradient_sum": ("double", (facts.size,)),
        }
        for kind, expected, tensors in (
            ("input", inputs, self._session.get_inputs()),
            ("output", outputs, self._session.get_outputs()),
        ):
            actual = {tensor.name: (_element_type(tensor.type), _shape(tensor.shape)) for tensor in tensors}
            for name in [*expected, *actual]:
                if actual.get(name) != expected.get(name):
                    raise ConfigError(
                        f"learner.model: {origin}: the {kind} {name} is {_describe_tensor(actual.get(name))}, not "
                        f"{_describe_tensor(expected.get(name))}: {_REMEDY}"
                    )


def _open_session(model: bytes, origin: str, threads: int) -> Any:
    """Open an ONNX Runtime session for a graph.

    Raises:
        ConfigError: if ONNX Runtime is missing or cannot load this graph.
    """
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.enable_mem_pattern = False  # the arena costs memory and saves no time
    options.log_severity_level = _FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(
            f"learner.model: {origin}: ONNX Runtime cannot load it ({_first_line(error)}): {_REMEDY}"
        ) from error


def _element_type(tensor_type: str) -> str:
    """Return the element type of a tensor type, for example `float` for `tensor(float)`."""
    return tensor_type.removeprefix("tensor(").removesuffix(")")


def _shape(dimensions: list[Any]) -> _Shape:
    return tuple(size if isinstance(size, int) else None for size in dimensions)


def _describe_tensor(tensor: tuple[str, _Shape] | None) -> str:
    if tensor is None:
        return "missing"
    sizes = ", ".join("any" if size is None else str(size) for size in tensor[1])
    return f"{tensor[0]}[{sizes}]"


def _first_line(error: Exception) -> str:
    """Return the first line of the error message, up to 300 characters, without the runtime's source lines."""
    return str(error).strip().split("\n")[0][:300]
