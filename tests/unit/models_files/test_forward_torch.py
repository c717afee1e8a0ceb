"""PyTorch exports: each is read as the original network, with equal scores on other examples."""

import io
import warnings
from typing import Any

import numpy as np
import pytest
from sottovoce_lab.models.build import build_forward
from sottovoce_lab.models.checks import forward_bytes
from sottovoce_lab.models.forward import read_forward

from tests.support.forward_models import run

torch = pytest.importorskip("torch", reason="compared with PyTorch: pip install torch")
nn = torch.nn


class Sum(nn.Module):  # type: ignore[misc, name-defined]
    """Sum of two paths, and a ReLU."""

    def __init__(self, way: Any, other: Any) -> None:
        super().__init__()
        self.way, self.other = way, other

    def forward(self, x: Any) -> Any:
        """See torch.nn.Module."""
        return torch.relu(self.way(x) + self.other(x))


def _block(channels: int, filters: int, stride: int) -> Any:
    way = nn.Sequential(
        nn.Conv2d(channels, filters, 3, stride, 1, bias=False),
        nn.GroupNorm(2, filters),
        nn.ReLU(),
        nn.Conv2d(filters, filters, 3, 1, 1, bias=False),
        nn.GroupNorm(2, filters),
    )
    other = nn.Identity() if stride == 1 else nn.Conv2d(channels, filters, 1, stride, bias=False)
    return Sum(way, other)


NETWORKS: dict[str, tuple[tuple[int, ...], Any]] = {
    "perceptron": ((6,), lambda: [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)]),
    "convolutions": (
        (1, 8, 8),
        lambda: [
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, (2, 3), stride=(2, 1)),
            nn.Sigmoid(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(12, 5),
        ],
    ),
    "residual": (
        (2, 8, 8),
        lambda: [
            nn.Conv2d(2, 4, 3, padding=1), _block(4, 4, 1), _block(4, 6, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(6, 3),
        ],
    ),
    "norms": ((4, 6, 6), lambda: [nn.InstanceNorm2d(4, affine=True), nn.LayerNorm([4, 6, 6]), nn.Flatten()]),
    "sequence": (
        (3, 10),
        lambda: [nn.Conv1d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(20, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_exported_network_is_read(name: str, opset: int) -> None:
    shape, layers = NETWORKS[name]
    torch.manual_seed(0)
    network = nn.Sequential(*layers()).eval()
    for tensor in network.parameters():
        nn.init.normal_(tensor, 0.0, 0.5)  # norms too, which begin with ones and zeros
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the export warns about the newer exporter
        torch.onnx.export(
            network, (torch.zeros(2, *shape),), file, dynamo=False, opset_version=opset, input_names=["x"],
            output_names=["y"], dynamic_axes={"x": {0: "B"}, "y": {0: "B"}} if opset == 18 else None,
        )  # fmt: skip
    result = read_forward(forward_bytes(file.getvalue(), "file"), "file", "name")
    x = np.random.default_rng(0).normal(size=(7, *shape)).astype(np.float32)
    rebuilt = run(build_forward(result.declaration, result.parameters), x.reshape(7, -1), "scores")
    with torch.no_grad():
        np.testing.assert_allclose(rebuilt, network(torch.from_numpy(x)).numpy(), rtol=1e-4, atol=1e-4)
    assert result.parameters.size == sum(tensor.numel() for tensor in network.parameters())
