"""Small networks of random shapes, as declarations."""

from typing import Any

from hypothesis import strategies as st

from tests.support.graph_runs import declared

Table = dict[str, Any]

KINDS = (
    "average-pool", "conv2d", "dense", "flatten", "group-norm", "layer-norm", "max-pool", "relu", "residual", "sigmoid",
    "tanh",
)  # fmt: skip
LOSSES = {"binary": [2], "hinge": [2, 5], "softmax": [2, 5], "squared": [1, 2, 5]}
"""Losses, and the numbers of classes to test with each."""


@st.composite
def networks(draw: st.DrawFn, kind: str) -> str:
    """Draw a network of a convolution, a layer of this kind, and a dense layer."""
    shape = tuple(draw(st.tuples(st.integers(1, 3), st.integers(5, 9), st.integers(5, 9))))
    first: Table = {"kind": "conv2d", "filters": draw(st.sampled_from([2, 4])), "kernel": draw(st.integers(1, 3))}
    layers = [first, *_layers(draw, kind), {"kind": "flatten"}, {"kind": "dense", "units": 3}]
    return declared(layers, shape)


@st.composite
def networks_with_loss(draw: st.DrawFn, loss: str, classes: int) -> str:
    """Draw a perceptron with this loss."""
    units = 1 if loss == "binary" or (loss, classes) == ("hinge", 2) else classes
    hidden = {"kind": "dense", "units": draw(st.integers(1, 9)), "bias": draw(st.booleans())}
    layers: list[Table] = [hidden, {"kind": "tanh"}, {"kind": "dense", "units": units}]
    return declared(layers, (draw(st.integers(1, 20)),), classes, loss)


def _layers(draw: st.DrawFn, kind: str) -> list[Table]:
    match kind:
        case "conv2d":
            return [_conv(draw)]
        case "max-pool" | "average-pool":
            return [_pool(draw, kind)]
        case "group-norm":
            return [{"kind": kind, "groups": draw(st.sampled_from([1, 2]))}]
        case "dense":
            return [{"kind": "flatten"}, {"kind": kind, "units": draw(st.integers(1, 9)), "bias": draw(st.booleans())}]
        case "residual":
            return [_residual(draw), {"kind": "relu"}]
    return [{"kind": kind}]


def _conv(draw: st.DrawFn) -> Table:
    """Draw a convolution with few filters, whose gradients are formed, or with many, whose gradients are not."""
    return {
        "kind": "conv2d",
        "filters": draw(st.sampled_from([1, 3, 80])),
        "kernel": draw(_draw_pairs(1, 3)),
        "stride": draw(_draw_pairs(1, 3)),
        "padding": draw(_draw_pairs(0, 3)),
        "bias": draw(st.booleans()),
    }


def _pool(draw: st.DrawFn, kind: str) -> Table:
    size = draw(st.integers(2, 3))
    if draw(st.booleans()):
        return {"kind": kind, "kernel": draw(st.sampled_from([[1, size], [size, 2]]))}
    if kind == "average-pool" and draw(st.booleans()):
        return {"kind": kind, "kernel": "all"}
    padding = draw(st.integers(0, size // 2))
    return {"kind": kind, "kernel": size, "stride": draw(_draw_pairs(1, 3)), "padding": padding}


def _residual(draw: st.DrawFn) -> Table:
    """Draw a residual block, with or without a layer in the shortcut, which changes the shape as the body does."""
    filters = draw(st.sampled_from([2, 6]))
    first = {"kind": "conv2d", "filters": filters, "kernel": 3, "padding": 1}
    norm = {"kind": "group-norm", "groups": 2}
    if draw(st.booleans()):
        short = {"kind": "conv2d", "filters": filters, "kernel": 1, "stride": 2, "bias": False}
        return {"kind": "residual", "layers": [first | {"stride": 2}, norm], "shortcut": [short, norm]}
    return {"kind": "residual", "layers": [{"kind": "tanh"}, norm]}


def _draw_pairs(least: int, most: int) -> st.SearchStrategy[Any]:
    """Draw one size, or separate sizes for the height and the width."""
    numbers = st.integers(least, most)
    return st.one_of(numbers, st.lists(numbers, min_size=2, max_size=2))
