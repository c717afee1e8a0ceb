"""Make predictions with an ordinary ONNX model, which ONNX Runtime runs on rows of features."""

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.session import onnxruntime

from sottovoce_lab.models.checks import lengths
from sottovoce_lab.models.export import KEY

_FATAL_ONLY = 4
_ROWS = 256


class Inference:
    """A model loaded for prediction.

    Args:
        model: the checked model. Its one float32 input has the batch as its first dimension. The output named
            `predictions` is used if there is one, and the first output if not. A float output with several columns
            contains class scores, the largest of which determines the label; a single column contains values.
        file: the file name, for error messages.

    Raises:
        ConfigError: if the file does not contain such a model, or ONNX Runtime cannot load it.
    """

    def __init__(self, model: ModelProto, file: str) -> None:
        self._file = file
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in weights]
        if len(inputs) != 1 or inputs[0].type.tensor_type.elem_type != TensorProto.FLOAT or not lengths(inputs[0]):
            raise ConfigError(
                f"{file}: the model does not have exactly one float32 input with a batch dimension: specify an "
                "ordinary model for prediction"
            )
        self._input, (self._batch, *shape) = inputs[0].name, lengths(inputs[0])
        self._shape = [-1 if size is None else size for size in shape]
        names = [value.name for value in model.graph.output]
        self._output = "predictions" if "predictions" in names else names[0]
        self._session = _load_session(model, file)
        self.facts = _facts(model, file)

    def predict(self, rows: NDArray[np.float64]) -> NDArray[Any]:
        """Predict labels, int64[M], or values, float64[M].

        Args:
            rows: the features in the form that the model expects, float64[M, d].

        Raises:
            ConfigError: if the rows do not fit the model, or the model fails.
        """
        size = self._batch or _ROWS
        parts = [self._call(rows[start : start + size], size) for start in range(0, len(rows), size)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _call(self, rows: NDArray[np.float64], size: int) -> NDArray[Any]:
        count, d = rows.shape
        batch = np.zeros((size if self._batch else count, d), dtype=np.float32)
        batch[:count] = rows
        try:
            inputs = batch.reshape(len(batch), *self._shape)
            output = np.asarray(self._session.run([self._output], {self._input: inputs})[0])[:count]
        except Exception as error:
            expected = " × ".join("any" if size == -1 else str(size) for size in self._shape)
            raise ConfigError(
                f"{self._file}: the model cannot process these records, which have {d} features each; its input is "
                f"{expected}: specify the --transform with which the model was trained"
            ) from error
        if output.dtype.kind == "i":
            return output.reshape(count).astype(np.int64)
        scores = output.reshape(count, -1)
        return scores[:, 0].astype(np.float64) if scores.shape[1] == 1 else scores.argmax(axis=1)


def _load_session(model: ModelProto, file: str) -> Any:
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = _FATAL_ONLY, 1
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    try:
        return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"{file}: ONNX Runtime cannot load the model ({reason}): export it again") from error


def _facts(model: ModelProto, file: str) -> dict[str, Any]:
    """Return the metadata written by `sottovoce model export`; empty for other models."""
    texts = [entry.value for entry in model.metadata_props if entry.key == KEY]
    if not texts:
        return {}
    try:
        facts = json.loads(texts[0])
        kinds = {"transform": str, "transform_included": bool, "classes": int}
        if all(isinstance(facts[key], kind) for key, kind in kinds.items()):
            return dict(facts)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise ConfigError(f"{file}: the model's description cannot be read: export the model again")
