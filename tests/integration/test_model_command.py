"""`sottovoce model` from end to end: a declaration becomes a graph, and an agent's model is exported."""

import json
import signal
import socket
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.cli.model_public import LoadedModel
from sottovoce.kernels.onnx.session import onnxruntime
from sottovoce.node.public_model import Description
from sottovoce_lab.cli.model_export import public_model
from sottovoce_lab.models.export import export_model
from sottovoce_operator.fleet import Fleet

from tests.support.command import document, run_here
from tests.support.devices import CLASSES, FEATURES, Device, accuracy, draw_records, new_device
from tests.support.forward_models import cnn, forward_model, run, weights_of
from tests.support.processes import running, sottovoce
from tests.support.waiting import until

DECLARATION = """
name = "small"
input = [1, 6, 6]
classes = 3
loss = "softmax"

[[layers]]
kind = "conv2d"
filters = 2
kernel = 3

[[layers]]
kind = "flatten"

[[layers]]
kind = "dense"
units = 3
"""


@pytest.fixture(scope="module")
def test_set(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("test") / "test.npz"
    features, labels = draw_records(400, 2**31)
    np.savez(path, X=features, y=labels, classes=np.array(CLASSES), bounds=[[0.0] * FEATURES, [1.0] * FEATURES])
    return f"npz:{path}"


@pytest.fixture(scope="module")
def stopped_device(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Device, dict[str, str], list[int]]:
    """A stopped device that has learnt, its export while it ran, and its predictions then."""
    directory = tmp_path_factory.mktemp("model")
    device = new_device(fleet, directory / "a", records=200).configure(learner={"steps": 10})
    features, _ = draw_records(20, 5)
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] == 10, "it has learnt")
        until(lambda: len({tuple(agent.model()) for _ in range(2)}) == 1, "its model no longer changes")
        exported = {}
        for kind, suffix in (("onnx", "onnx"), ("sklearn", "json")):
            out = directory / f"running.{suffix}"
            completed = sottovoce("model", "export", "--state", device.state, "--format", kind, "--out", out)
            assert completed.returncode == 0, completed.stderr
            exported[kind] = str(out)
        answer = _predict_as_documented(device.state / "agent.sock", features.tolist())
        assert agent.end(signal.SIGTERM) == 0
    return device, exported, answer["labels"]


def _predict_as_documented(path: Path, rows: list[list[float]]) -> dict[str, list[int]]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(json.dumps({"predict": rows}).encode() + b"\n")
        with connection.makefile() as lines:
            result: dict[str, list[int]] = json.loads(lines.readline())
            return result


@pytest.mark.process
def test_a_running_agent_and_its_export_predict_the_same(
    stopped_device: tuple[Device, dict[str, str], list[int]],
) -> None:
    _, exported, labels = stopped_device
    features, _ = draw_records(20, 5)
    session = onnxruntime().InferenceSession(exported["onnx"], providers=["CPUExecutionProvider"])
    assert session.run(["predictions"], {"features": features.astype(np.float32)})[0].tolist() == labels
    document = json.loads(session.get_modelmeta().custom_metadata_map["sottovoce.export"])
    assert (document["learner"], document["model"], document["classes"]) == ("clipd2p", "softmax", CLASSES)
    assert document["transform_included"] is True
    assert (document["privacy"]["status"], document["privacy"]["epsilon"]) == ("proved", 2.0)
    assert 0 < document["privacy"]["spent_epsilon"] <= 2.0


@pytest.mark.process
def test_a_stopped_agent_has_the_same_model(
    stopped_device: tuple[Device, dict[str, str], list[int]], tmp_path: Path, test_set: str
) -> None:
    device, exported, _ = stopped_device
    out = tmp_path / "stopped.json"
    completed = run_here(
        "model", "export", "--state", device.state, "--config", device.config, "--format", "sklearn", "--out", out
    )
    assert completed.code == 0, completed.err
    one, other = json.loads(out.read_text()), json.loads(Path(exported["sklearn"]).read_text())
    assert one["coef_"] == other["coef_"]
    statement = {key: value for key, value in other["description"]["privacy"].items() if key != "exhausted"}
    assert one["description"]["privacy"] == statement
    by_state = run_here(
        "model", "predict", "--state", device.state, "--config", device.config, "--data", test_set, "--json"
    )
    by_file = run_here("model", "predict", "--model", exported["onnx"], "--data", test_set, "--json", "--score")
    assert by_state.code == by_file.code == 0, by_state.err + by_file.err
    report = document(by_file.out)
    assert document(by_state.out)["predictions"] == report["predictions"]
    assert report["accuracy"] > 0.9


@pytest.mark.process
def test_a_stopped_agent_needs_its_configuration(
    stopped_device: tuple[Device, dict[str, str], list[int]], tmp_path: Path
) -> None:
    device, _, _ = stopped_device
    completed = run_here("model", "export", "--state", device.state, "--out", tmp_path / "x.onnx")
    assert (completed.code, "or use --config FILE" in completed.err) == (2, True)
    other = run_here("model", "export", "--state", tmp_path, "--config", device.config, "--out", tmp_path / "x.onnx")
    assert (other.code, "use the same directory in both" in other.err) == (2, True)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.process
def test_the_command_predicts_with_a_running_agent(fleet: Fleet, tmp_path: Path, test_set: str) -> None:
    device = new_device(fleet, tmp_path / "a", records=200).configure(learner={"steps": 10})
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] == 10, "it has learnt")
        out = tmp_path / "labels"
        completed = sottovoce("model", "predict", "--state", device.state, "--data", test_set, "--out", out)
        assert out.stat().st_mode & 0o777 == 0o600
        assert (completed.returncode, completed.stdout) == (0, ""), completed.stderr
        assert len(out.read_text().split()) == 400
        scored = sottovoce("model", "predict", "--state", device.state, "--data", test_set, "--score")
        assert float(scored.stdout.removeprefix("accuracy")) == pytest.approx(accuracy(agent.model()), abs=0.1)


@pytest.mark.process
def test_a_declaration_becomes_a_graph_that_runs_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(DECLARATION)
    report = document(run_here("model", "build", "small.toml", "--json").out)
    assert (report["name"], report["parameters"], report["file"]) == ("small", 2 * 9 + 2 + 32 * 3 + 3, "small.onnx")
    output = document(run_here("model", "show", "small.onnx", "--json").out)
    assert (output["sha256"], output["size"], output["chunk"]) == (
        report["sha256"],
        report["parameters"],
        report["chunk"],
    )
    assert output["runs_here"].startswith("yes")
    assert output["as_declared"] is True
    words = run_here("model", "build", "small.toml", "--name", "other").out
    built = document(run_here("model", "build", "small.toml", "--name", "other", "--json").out)
    assert f'graphs = ["{built["graphs"][0]}"]' in words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.onnx", "small.onnx", "small.toml"]


def test_another_program_s_model_becomes_a_graph_and_weights(tmp_path: Path) -> None:
    source, out, weights = tmp_path / "Their Model.onnx", tmp_path / "graph.onnx", tmp_path / "weights.npz"
    source.write_bytes(cnn().SerializeToString())
    completed = run_here("model", "build", source, "--out", out, "--parameters", weights, "--json")
    assert completed.code == 0, completed.err
    assert document(completed.out)["name"] == "their-model"
    x = np.random.default_rng(0).normal(size=(4, 1, 6, 6)).astype(np.float32)
    with np.load(weights) as archive:
        stored = {**archive}
    runtime = onnxruntime().InferenceSession(str(out), providers=["CPUExecutionProvider"])
    inputs = {
        "parameters": stored["parameters"].astype(np.float32),
        "features": x.reshape(4, -1),
        "labels": np.zeros(4, dtype=np.int64),
        "mask": np.ones(4, dtype=bool),
        "clip": np.array(1.0),
    }
    assert runtime.run(["predictions"], inputs)[0].tolist() == run(cnn(), x).argmax(axis=1).tolist()
    assert stored["conv1.weight"].shape == (4, 1, 3, 3)


@pytest.mark.process  # tests the graph in a process of its own
def test_a_frozen_body_is_built_shown_and_exported(tmp_path: Path) -> None:
    source, out = tmp_path / "public.onnx", tmp_path / "tuned.onnx"
    source.write_bytes(cnn().SerializeToString())
    built = run_here("model", "build", source, "--start", "frozen", "--classes", 5, "--out", out, "--json")
    assert built.code == 0, built.err
    report = document(built.out)
    assert (report["classes"], report["parameters"], report["start"]) == (5, 5 * 17, "frozen")
    shown = document(run_here("model", "show", out, "--json").out)
    assert (shown["as_declared"], shown["start"], shown["size"]) == (True, "frozen", 5 * 17)
    assert [*shown["parameters"]] == ["dense1.weight", "dense1.bias"]
    assert shown["frozen"] == ["conv1.weight", "conv1.bias", "norm1.weight", "norm1.bias", "block1.conv1.weight"]
    x = np.random.default_rng(0).normal(size=(4, 1, 6, 6)).astype(np.float32)
    head = np.random.default_rng(1).normal(size=5 * 17)
    exported = export_model(public_model(_loaded(out, head)), (), None, {"ranges": "none", "features": 36})
    session = onnxruntime().InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {"features": x.reshape(4, -1)}
    training = onnxruntime().InferenceSession(str(out), providers=["CPUExecutionProvider"])
    rest = {"labels": np.zeros(4, dtype=np.int64), "mask": np.ones(4, dtype=bool), "clip": np.array(1.0)}
    (expected,) = training.run(["predictions"], {**inputs, **rest, "parameters": head.astype(np.float32)})
    assert session.run(["predictions"], inputs)[0].tolist() == expected.tolist()
    again = run_here("model", "build", source, "--start", "weights", "--out", out, "--json")
    assert (document(again.out)["start"], document(run_here("model", "show", out, "--json").out)["frozen"]) == (
        "weights",
        [],
    )


def _loaded(graph: Path, parameters: NDArray[np.float64]) -> LoadedModel:
    description = Description(
        learner="clipd2p", fidelity="sound", model=str(graph), hidden=0, features=36, columns=36, classes=5,
        transform="none", ranges="none", bounds=None, privacy={},
    )  # fmt: skip
    return LoadedModel(description, parameters, 0, None)


def test_weights_of_a_declaration_and_a_body_of_one_layer_are_refused(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(DECLARATION)
    completed = run_here("model", "build", tmp_path / "small.toml", "--start", "frozen")
    assert (completed.code, "--start" in completed.err) == (2, True)
    layer = forward_model("f = Flatten (x) y = Gemm (f, w)", weights_of({"w": (36, 3)}))
    (tmp_path / "one.onnx").write_bytes(layer.SerializeToString())
    completed = run_here("model", "build", tmp_path / "one.onnx", "--start", "frozen", "--out", tmp_path / "x.onnx")
    assert (completed.code, "freeze" in completed.err) == (3, True)
    assert not (tmp_path / "x.onnx").exists()


def test_another_program_s_model_predicts_and_is_scored(tmp_path: Path) -> None:
    file, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    file.write_bytes(cnn().SerializeToString())
    x = np.random.default_rng(0).normal(size=(300, 36))
    labels = run(cnn(), x.reshape(300, 1, 6, 6)).argmax(axis=1)
    np.savez(data, X=x, y=labels, classes=np.array(3))
    assert run_here("model", "predict", "--model", file, "--data", f"npz:{data}", "--score").out == "accuracy     1\n"
    lines = run_here("model", "predict", "--model", file, "--data", f"npz:{data}").out.split()
    assert lines == [str(label) for label in labels]
    np.savez(data, X=x[:, 1:], y=labels, classes=np.array(3))
    other = run_here("model", "predict", "--model", file, "--data", f"npz:{data}")
    assert (other.code, "cannot process these records, which have 35 features each" in other.err) == (3, True)
    np.savez(data, X=np.hstack([x, x[:, :1]]), y=labels * 0, classes=np.array(1))
    numbers = run_here("model", "predict", "--model", file, "--data", f"npz:{data}", "--score")
    assert (numbers.code, "no targets for these predictions" in numbers.err) == (4, True)


@pytest.mark.parametrize(
    "name, content, code, words",
    [
        ("bad.toml", "name = 3", 3, "bad.toml"),
        ("bad.toml", DECLARATION.replace("units = 3", "units = 4"), 3, "the last layer has output shape 4"),
        ("bad.onnx", "no model", 3, "is not an ONNX model"),
        ("bad.pt2", "", 3, "torch.onnx.export"),
        ("bad.json", "{}", 2, "specify a .toml declaration"),
    ],
)
def test_nothing_is_written_if_the_build_fails(tmp_path: Path, name: str, content: str, code: int, words: str) -> None:
    source = tmp_path / name
    source.write_text(content)
    completed = run_here("model", "build", source, "--out", tmp_path / "out.onnx")
    assert (completed.code, words in completed.err) == (code, True), completed.err
    assert completed.err.count("\n") == 1
    assert [*tmp_path.iterdir()] == [source]


def test_a_missing_extra_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(DECLARATION)
    monkeypatch.setattr("sottovoce_lab.cli.model_files.find_spec", lambda name: None)
    completed = run_here("model", "build", tmp_path / "small.toml")
    assert (completed.code, "pip install 'sottovoce[models]'" in completed.err) == (3, True)
