"""Fine-tune a network that was trained on public pictures: twelve devices learn its last layer at ε = 1.

Each picture shows a digit somewhere. Those of 0 to 4 are public, and those of 5 to 9 are the devices' records.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import sottovoce_lab as lab
from onnx import helper, numpy_helper
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

SIDE, PATCH, FILTERS, THRESHOLD = 16, 5, 32, 2.0


def pretrain(pictures, labels, rng):
    """Return a network's weights: filters that are frequent patches (Coates & Ng 2012), a scale and a classifier."""
    rows = pictures.reshape(len(pictures), -1) / 16
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt((rows**2).mean(axis=1, keepdims=True))  # the transform `standard`, which devices apply too
    windows = np.lib.stride_tricks.sliding_window_view(rows.reshape(-1, SIDE, SIDE), (PATCH, PATCH), (1, 2))
    patches = windows.reshape(len(rows), -1, PATCH**2)
    sample = unit(rng.choice(patches.reshape(-1, PATCH**2), 20_000))
    filters = unit(KMeans(FILTERS, n_init=1, max_iter=30, random_state=0).fit(sample).cluster_centers_)
    means = np.stack([np.maximum(0, patches @ kernel - THRESHOLD).mean(axis=1) for kernel in filters], axis=1)
    scale, shift = 1 / means.std(axis=0), -means.mean(axis=0) / means.std(axis=0)
    classifier = LogisticRegression(max_iter=500).fit(np.tanh(means * scale + shift), labels)
    return {
        "filters": filters.reshape(FILTERS, 1, PATCH, PATCH),
        "thresholds": np.full(FILTERS, -THRESHOLD),
        "scale": np.diag(scale),
        "shift": shift,
        "head": classifier.coef_,
        "offset": classifier.intercept_,
    }


def unit(patches):
    """Return the patches that are not of one colour, with mean 0 and length 1."""
    patches = patches[patches.std(axis=1) > 0.01]
    patches = patches - patches.mean(axis=1, keepdims=True)
    return patches / np.linalg.norm(patches, axis=1, keepdims=True)


def save(weights, path):
    """Write the network as an ordinary ONNX file; PyTorch's `torch.onnx.export` writes such a file, too."""
    nodes = [
        helper.make_node("Conv", ["pictures", "filters", "thresholds"], ["matches"]),
        helper.make_node("Relu", ["matches"], ["strong"]),
        helper.make_node("GlobalAveragePool", ["strong"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("Gemm", ["flat", "scale", "shift"], ["scaled"], transB=1),
        helper.make_node("Tanh", ["scaled"], ["features"]),
        helper.make_node("Gemm", ["features", "head", "offset"], ["scores"], transB=1),
    ]
    pictures = helper.make_tensor_value_info("pictures", onnx.TensorProto.FLOAT, ["batch", 1, SIDE, SIDE])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["batch", 5])
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "public", [pictures], [scores], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)


rng = np.random.default_rng(0)
digits, labels = load_digits(return_X_y=True)
pictures = np.zeros((len(digits), SIDE, SIDE))
for i, (row, column) in enumerate(rng.integers(0, SIDE - 7, (len(digits), 2))):
    pictures[i, row : row + 8, column : column + 8] = digits[i].reshape(8, 8)
public = labels < 5

save(pretrain(pictures[public], labels[public], rng), "public.onnx")
Path("head.toml").write_text(
    f'name = "head"\ninput = [{SIDE**2}]\nclasses = 5\nloss = "softmax"\n[[layers]]\nkind = "dense"\nunits = 5\n'
)
build = [sys.executable, "-m", "sottovoce", "model", "build"]
subprocess.run([*build, "public.onnx", "--start", "frozen", "--classes", "5", "--out", "tuned.onnx"], check=True)
subprocess.run([*build, "head.toml", "--out", "head.onnx"], check=True)

records = pictures[~public].reshape(-1, SIDE**2), labels[~public] - 5
for name, model in (("the last layer of the public network", "tuned.onnx"), ("the same layer on pixels", "head.onnx")):
    settings = {"learner.model": model}
    (run,) = lab.simulate(records, bounds=(0, 16), classes=5, epsilon=1, settings=settings, baselines=False)
    print(f"ε = {run.epsilon:g}, {name}: mean accuracy {run.final['accuracy_mean']:.2f}, {run.privacy['status']}")
