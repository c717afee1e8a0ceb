"""Readers for ONNX operators; each converts a node in a forward graph to a layer."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.models.graph_values import Layer, Node, Point, Shape, Table

EPSILON = 1e-5
"""Constant that this package's norms add to the variance."""

Floats = NDArray[np.float32]

_MAX_DEPTH = 8
_BATCH_NORM = (
    "batch norm mixes the examples of a batch, so gradients cannot be clipped per example",
    "use group norm: torch.nn.GroupNorm(groups, channels)",
)


def read_conv(node: Node) -> Point:
    """Read Conv as a convolution."""
    point, weight, bias = node.point(), _floats(node, 1), node.constant(2)
    if weight is None or weight.ndim != len(point.shape) + 1:
        raise node.refusal("only convolutions over one or two dimensions are supported")
    if node.attributes.get("group", 1) != 1:
        raise node.refusal("grouped convolutions are not supported")
    table = _window(node, point, kernel=[*weight.shape[2:]])
    shape = (weight.shape[0], *_output_size(node, point, [*weight.shape[2:]]))
    tensors = [weight if weight.ndim == 4 else weight[:, :, np.newaxis]]
    tensors += [] if bias is None else [_vector(node, bias, weight.shape[0])]
    return _append_layer(
        point, shape, {"kind": "conv2d", "filters": weight.shape[0], **table, "bias": bias is not None}, tensors
    )


def read_gemm(node: Node) -> Point:
    """Read Gemm as a dense layer, whose weights include the scale factors alpha and beta."""
    point, weight, bias = node.point(), _floats(node, 1), node.constant(2)
    if weight is None or len(point.shape) != 1 or node.attributes.get("transA", 0):
        raise node.refusal("a dense layer must have one row per example as input", "flatten before it")
    weight = (weight if node.attributes.get("transB", 0) else weight.T) * np.float32(node.attributes.get("alpha", 1))
    scale = np.float32(node.attributes.get("beta", 1))
    return _dense(node, point, weight, None if bias is None else _vector(node, bias, len(weight)) * scale)


def read_matmul(node: Node) -> Point:
    """Read MatMul with a constant matrix as a dense layer without a bias."""
    point, weight = node.point(), _floats(node, 1)
    if weight is None or weight.ndim != 2 or len(point.shape) != 1:
        raise node.refusal("a dense layer must have one row per example as input", "flatten before it")
    return _dense(node, point, weight.T, None)


def read_add(node: Node) -> Point:
    """Read Add as a bias, or as the end of a residual block."""
    if all(isinstance(value, Point) for value in node.inputs):
        return _residual(node, node.point(0), node.point(1))
    index = 0 if isinstance(node.inputs[0], Point) else 1
    return _add_bias(node, node.point(index), _floats(node, 1 - index))


def read_mul(node: Node) -> Point:
    """Read Mul by a constant as the weight of the group norm before it."""
    index = 0 if isinstance(node.inputs[0], Point) else 1
    point, factor = node.point(index), _floats(node, 1 - index)
    if factor is None or point.layer is None or point.layer.table["kind"] != "group-norm":
        raise node.refusal("multiplying by a constant is supported only after a group norm")
    weight, bias = point.layer.tensors
    channel_factor = _channels(node, factor, point.shape)
    return replace(point, layer=replace(point.layer, tensors=(weight * channel_factor, bias * channel_factor)))


def elementwise_reader(kind: str) -> Callable[[Node], Point]:
    """Return a reader for Relu, Tanh or Sigmoid."""
    return lambda node: _append_layer(node.point(), node.point().shape, {"kind": kind})


def read_softmax(node: Node) -> Point:
    """Read Softmax or LogSoftmax, which the caller drops at the end of the model and rejects elsewhere."""
    point = node.point()
    if len(point.shape) != 1 or node.attributes.get("axis", -1) not in (1, -1):
        raise node.refusal("softmax is supported only over the scores, at the end of the model")
    return _append_layer(point, point.shape, {"kind": "softmax"})


def pool_reader(kind: str) -> Callable[[Node], Point]:
    """Return a reader for MaxPool or AveragePool."""

    def read(node: Node) -> Point:
        point, kernel = node.point(), [*node.attributes["kernel_shape"]]
        if len(node.proto.output) > 1 or node.attributes.get("storage_order", 0):
            raise node.refusal("pooling that also returns indices is not supported")
        table, size = _window(node, point, kernel), _output_size(node, point, kernel)
        padded = any(node.attributes.get("pads", ()))
        if kind == "average-pool" and padded and not node.attributes.get("count_include_pad", 0):
            raise node.refusal(
                "the operator leaves the padding out of the average",
                "set count_include_pad=True, or remove the padding",
            )
        return _append_layer(point, (point.shape[0], *size), {"kind": kind, **table})

    return read


def read_global_average(node: Node) -> Point:
    """Read GlobalAveragePool as an average over the whole image."""
    point = node.point()
    if len(point.shape) < 2:
        raise node.refusal("the input has no height or width to average over")
    return _append_average(point, keep=True)


def read_reduce_mean(node: Node) -> Point:
    """Read ReduceMean over height and width as an average over the whole image."""
    point, axes = node.point(), node.numbers("axes", 1) or []
    rank = len(point.shape) + 1
    if sorted(axis % rank for axis in axes) != [*range(2, rank)] or rank < 3:
        raise node.refusal("the average is not over height and width")
    return _append_average(point, keep=bool(node.attributes.get("keepdims", 1)))


def read_group_norm(node: Node) -> Point:
    """Read GroupNormalization from opset 21, which has one weight and one bias per channel."""
    point, groups = node.point(), node.attributes["num_groups"]
    weight, bias = _floats(node, 1), _floats(node, 2)
    if weight is None or bias is None or weight.shape != point.shape[:1] or bias.shape != weight.shape:
        raise node.refusal("the norm has weights per group, not per channel", "export the model with opset 21")
    return _append_group_norm(node, point, groups, weight, bias)


def read_instance_norm(node: Node) -> Point:
    """Read InstanceNormalization as a group norm with one group per channel, or as the inner part of a group norm."""
    input_value = node.inputs[0]
    weight, bias = _floats(node, 1), _floats(node, 2)
    if weight is None or bias is None:
        raise node.refusal("the norm has no weights")
    if isinstance(input_value, Point) and input_value.part == (input_value.shape[0], False):
        if not ((weight == 1).all() and (bias == 0).all()):
            raise node.refusal("the norm has weights per group, not per channel")
        _check_epsilon(node)
        return replace(input_value, previous=input_value, part=(input_value.shape[0], True))
    point = node.point()
    return _append_group_norm(node, point, point.shape[0], weight, bias)


def read_layer_norm(node: Node) -> Point:
    """Read LayerNormalization over a whole example as a layer norm."""
    point, weight, bias = node.point(), _floats(node, 1), _floats(node, 2)
    _check_epsilon(node)
    if node.attributes.get("axis", -1) not in (1, -len(point.shape)) or len(node.proto.output) > 1 or weight is None:
        raise node.refusal(
            "the norm covers only part of an example", "use torch.nn.LayerNorm over all dimensions of an example"
        )
    shift = np.zeros_like(weight) if bias is None else bias
    return _append_layer(point, point.shape, {"kind": "layer-norm"}, [_image(weight), _image(shift)])


def read_batch_norm(node: Node) -> Point:
    """Reject BatchNormalization, because it mixes the examples in a batch."""
    raise node.refusal(*_BATCH_NORM)


def read_group_reshape(node: Node, point: Point, shape: Shape) -> Point | None:
    """Read a Reshape at the start or end of a group norm; return None for any other Reshape."""
    if point.part is not None and point.part[1]:
        source, groups = next(earlier for earlier in point.ancestors() if earlier.part is None), point.part[0]
        if shape == source.shape:
            ones = np.ones(shape[0], dtype=np.float32)
            return _append_group_norm(node, source, groups, ones, np.zeros_like(ones))
        return None
    if len(shape) == 2 and len(point.shape) > 1 and shape != point.shape and point.shape[0] % shape[0] == 0:
        return Point(shape, previous=point, part=(shape[0], False))
    return None


def to_image_shape(shape: Shape) -> Shape:
    """Return a sequence shape, channels × length, as an image shape with one row; leave other shapes unchanged."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape


def _image(tensor: Floats) -> Floats:
    return tensor[:, np.newaxis] if tensor.ndim == 2 else tensor


def _append_layer(point: Point, shape: Shape, table: Table, tensors: list[Floats] | None = None) -> Point:
    return Point(shape, previous=point, layer=Layer(table, tuple(tensors or ())))


def _dense(node: Node, point: Point, weight: Floats, bias: Floats | None) -> Point:
    if weight.shape[1] != point.shape[0]:
        raise node.refusal("the weights do not match the input size")
    tensors = [np.ascontiguousarray(weight)] + ([] if bias is None else [bias])
    table = {"kind": "dense", "units": len(weight), "bias": bias is not None}
    return _append_layer(point, (len(weight),), table, tensors)


def _add_bias(node: Node, point: Point, bias: Floats | None) -> Point:
    kinds = ("conv2d", "dense", "group-norm")
    if bias is None or point.layer is None or point.layer.table["kind"] not in kinds:
        raise node.refusal("adding a constant is supported only after a dense layer, convolution or group norm")
    shift, (weight, *old_bias) = _channels(node, bias, point.shape), point.layer.tensors
    tensors = (weight, old_bias[0] + shift if old_bias else shift)
    table = point.layer.table if len(old_bias) else {**point.layer.table, "bias": True}
    return replace(point, layer=Layer(table, tensors))


def _residual(node: Node, first: Point, second: Point) -> Point:
    earlier = {id(point) for point in first.ancestors()}
    start = next(point for point in second.ancestors() if id(point) in earlier)  # the input, at the latest
    body, shortcut = first.layers_since(start), second.layers_since(start)
    if first.shape != second.shape or not (body or shortcut):
        raise node.refusal("the operator adds tensors of different shapes, or a tensor to itself")
    if len(shortcut) > len(body):
        body, shortcut = shortcut, body
    block = Layer({"kind": "residual"}, (), body, shortcut)
    if block.depth > _MAX_DEPTH:
        raise node.refusal(f"residual blocks are nested more than {_MAX_DEPTH} levels deep")
    return Point(first.shape, previous=start, layer=block)


def _append_average(point: Point, *, keep: bool) -> Point:
    ones = (1,) * (len(point.shape) - 1)
    pooled = _append_layer(point, (point.shape[0], *ones), {"kind": "average-pool", "kernel": "all"})
    return pooled if keep else _append_layer(pooled, point.shape[:1], {"kind": "flatten"})


def _append_group_norm(node: Node, point: Point, groups: int, weight: Floats, bias: Floats) -> Point:
    _check_epsilon(node)
    if len(point.shape) < 2 or point.shape[0] % max(1, groups) or len(weight) != point.shape[0]:
        raise node.refusal("the groups do not divide the channels evenly, or there is not one weight per channel")
    return _append_layer(point, point.shape, {"kind": "group-norm", "groups": int(groups)}, [weight, bias])


def _check_epsilon(node: Node) -> None:
    """Check a norm's epsilon. A Reshape has none, but its norm was checked before."""
    epsilon = node.attributes.get("epsilon", EPSILON)
    if abs(epsilon - EPSILON) > 1e-3 * EPSILON:
        raise node.refusal(
            f"the norm adds {epsilon:g} to the variance; only {EPSILON:g} is supported",
            f"train with eps={EPSILON:g}",
        )


def _window(node: Node, point: Point, kernel: list[int]) -> Table:
    """Return the kernel, stride and padding in the format of a declaration."""
    axes = len(point.shape) - 1
    if axes not in (1, 2) or len(kernel) != axes:
        raise node.refusal("only windows over one or two dimensions are supported")
    pads = [*node.attributes.get("pads", [0] * 2 * axes)]
    if node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or pads[:axes] != pads[axes:]:
        raise node.refusal(
            "the operator pads one side more than the other", "use symmetric padding, given as explicit numbers"
        )
    if any(number != 1 for number in node.attributes.get("dilations", ())):
        raise node.refusal("dilated windows are not supported")
    strides = [*node.attributes.get("strides", [1] * axes)]
    if len(pads) != 2 * axes or len(strides) != axes:
        raise node.refusal("the windows and the input do not have the same number of dimensions")
    values = {"kernel": (kernel, 1), "stride": (strides, 1), "padding": (pads[:axes], 0)}
    return {name: [default] * (2 - axes) + numbers for name, (numbers, default) in values.items()}


def _output_size(node: Node, point: Point, kernel: list[int]) -> Shape:
    axes = len(kernel)
    strides, pads = node.attributes.get("strides", [1] * axes), node.attributes.get("pads", [0] * 2 * axes)
    spans = [size + 2 * pad - width for size, pad, width in zip(point.shape[1:], pads[:axes], kernel, strict=True)]
    if min(spans) < 0 or min(strides) < 1:
        raise node.refusal("the windows are larger than the padded input")
    if node.attributes.get("ceil_mode", 0) and any(span % step for span, step in zip(spans, strides, strict=True)):
        raise node.refusal("the last window is incomplete", "set ceil_mode=False")
    return tuple(span // step + 1 for span, step in zip(spans, strides, strict=True))


def _floats(node: Node, index: int) -> Floats | None:
    value = node.constant(index)
    return None if value is None else value.astype(np.float32)


def _vector(node: Node, value: NDArray[np.generic], size: int) -> Floats:
    if value.size not in (1, size):
        raise node.refusal("the bias has neither one number nor one number per output")
    return np.ascontiguousarray(np.broadcast_to(value.reshape(-1), (size,)), dtype=np.float32)


def _channels(node: Node, value: Floats, shape: Shape) -> Floats:
    """Return one number per channel from an array that broadcasts to an example's shape."""
    per_channel = (shape[0], *(1 for _ in shape[1:]))
    if value.size == 1 or value.shape in (per_channel, (1, *per_channel)):
        return np.ascontiguousarray(np.broadcast_to(value.reshape(-1), (shape[0],)))
    raise node.refusal("the constant does not have one number per channel")
