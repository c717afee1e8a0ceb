"""Declared models rebuilt in PyTorch, with per-example gradients. Requires PyTorch, which is in no lock file."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.graph_runs import Batch

torch: Any = pytest.importorskip("torch", reason="compared with PyTorch: pip install torch")
torch.set_num_threads(1)  # tests share the machine
nn: Any = torch.nn
Tensor = Any
Doubles = NDArray[np.float64]
Table = Mapping[str, Any]


class Residual(nn.Module):  # type: ignore[misc]  # untyped without PyTorch
    """Residual block: the sum of two paths."""

    def __init__(self, body: Any, shortcut: Any) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Apply both paths to the input, and add the results."""
        return self.body(x) + self.shortcut(x)


class TorchModel:
    """Declared model in PyTorch.

    Args:
        declared: the declaration as TOML.
    """

    def __init__(self, declared: str) -> None:
        tables = tomllib.loads(declared)
        self.shape = tuple(tables["input"])
        self.classes, self.loss = tables["classes"], tables["loss"]
        self.module = _chain(tables["layers"], self.shape)[0]
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.module.named_parameters()}

    def gradients(self, parameters: Doubles, batch: Batch) -> Doubles:
        """Return the gradient of each example, float64[B, P]."""
        by_example = torch.func.vmap(torch.func.grad(self._loss), in_dims=(None, 0, 0))(
            self._cut(parameters), torch.from_numpy(batch.features), torch.from_numpy(batch.labels)
        )
        flat = [tensor.reshape(len(batch.features), -1) for tensor in by_example.values()]
        gradients: Doubles = torch.cat(flat, dim=1).double().numpy()
        return gradients

    def losses(self, parameters: Doubles, batch: Batch) -> Doubles:
        """Return the loss of each example, float64[B]."""
        losses = torch.func.vmap(self._loss, in_dims=(None, 0, 0))(
            self._cut(parameters), torch.from_numpy(batch.features), torch.from_numpy(batch.labels)
        )
        values: Doubles = losses.double().numpy()
        return values

    def scores(self, parameters: Doubles, batch: Batch) -> NDArray[np.float32]:
        """Return the scores of each example, float32[B, outputs]."""
        with torch.no_grad():
            x = torch.from_numpy(batch.features).reshape(-1, *self.shape)
            scores: NDArray[np.float32] = torch.func.functional_call(self.module, self._cut(parameters), (x,)).numpy()
        return scores

    def _cut(self, parameters: Doubles) -> dict[str, Tensor]:
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        parts = torch.from_numpy(parameters.astype(np.float32)).split(sizes)
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        scores = torch.func.functional_call(self.module, parameters, (x.reshape(1, *self.shape),))[0]
        if self.loss == "softmax":
            return nn.functional.cross_entropy(scores[None], y[None])
        if self.loss == "binary":
            return nn.functional.binary_cross_entropy_with_logits(scores[0], y.float())
        if self.loss == "hinge":
            known = torch.arange(1, 2) if self.classes == 2 else torch.arange(self.classes)
            sign = torch.where(known == y, 1.0, -1.0)
            return torch.relu(1 - sign * scores).sum()
        target = y[None] if self.classes == 1 else (torch.arange(self.classes) == y).float()
        return ((scores - target) ** 2).sum() / 2


def _chain(tables: Sequence[Table], shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Chain layers; return the chain and the shape of its output."""
    layers = []
    for table in tables:
        layer = _layer(dict(table), shape)
        layers.append(layer)
        with torch.no_grad():
            shape = tuple(layer(torch.zeros(1, *shape)).shape[1:])
    return nn.Sequential(*layers), shape


def _layer(table: dict[str, Any], shape: tuple[int, ...]) -> Any:
    kind = table.pop("kind")
    table = {key: tuple(value) if key in ("kernel", "stride", "padding") and isinstance(value, list) else value
             for key, value in table.items()}  # fmt: skip
    match kind:
        case "conv2d":
            return nn.Conv2d(shape[0], table.pop("filters"), table.pop("kernel"), **table)
        case "dense":
            return nn.Linear(shape[0], table.pop("units"), **table)
        case "max-pool":
            kernel = table.pop("kernel")
            return nn.MaxPool2d(kernel, **table)
        case "average-pool":
            kernel = table.pop("kernel")
            return nn.AvgPool2d(shape[1:] if kernel == "all" else kernel, **table)
        case "group-norm":
            return nn.GroupNorm(table["groups"], shape[0])
        case "layer-norm":
            return nn.LayerNorm(shape)
        case "residual":
            return Residual(_chain(table["layers"], shape)[0], _chain(table.get("shortcut", ()), shape)[0])
    return {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "flatten": nn.Flatten}[kind]()
