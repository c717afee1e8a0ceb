"""Wrong configurations that stop `agent run`, named in equal words by `config check` and `doctor`."""

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.learning.papers import LEARNERS
from sottovoce_operator.fleet import Fleet

from tests.support.command import run_here
from tests.support.devices import Device, new_device

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong configuration, or a damaged device.

    Attributes:
        tables: take the place of keys of the device's configuration.
        text: is appended, or takes the whole file's place where it begins with `=`.
        act: is done to the device.
        elsewhere: it looks like another machine, where `config check` says so and finds nothing wrong.
    """

    tables: Tables | None = None
    text: str = ""
    act: Callable[[Device], object] = lambda _: None
    elsewhere: bool = False


def records(**arrays: Any) -> Callable[[Device], object]:
    """Write other records."""
    usual = {"X": np.full((6, 4), 0.5), "y": np.arange(6) % 3, "classes": np.array(3)}
    return lambda device: np.savez(device.records, **{**usual, **arrays})


WRONG: dict[str, Wrong] = {
    "no TOML": Wrong(text="=[agent"),
    "not UTF-8": Wrong(act=lambda device: device.config.write_bytes(b"\xff\xfe")),
    "no file": Wrong(act=lambda device: device.config.unlink()),
    "no [agent]": Wrong(text='=[data]\nsource = "npz:x.npz"\nfeatures = 4\nclasses = 3\nexpected_records = 9\n'),
    "a table that there is not": Wrong(text="\n[lerner]\nsteps = 3\n"),
    "a key that there is not": Wrong({"learner": {"stepz": 3}}),
    "a key of another learner": Wrong({"learner": {"gossip_steps": 3}}),
    "eight keys of other learners": Wrong({"learner": {"name": "golf", "steps": 3, "visits": 2, "answers": 4}}),
    "a learner that there is not": Wrong(text='=[agent]\nstate = "a"\n[learner]\nname = "clipd3p"\n'),
    "a number for a word": Wrong({"learner": {"fidelity": 3}}),
    "a word for a number": Wrong({"learner": {"steps": "many"}}),
    "too small": Wrong({"learner": {"period": 0.0}}),
    "too large": Wrong({"learner": {"fanout": 65}}),
    "a model of another learner": Wrong({"learner": {"name": "golf", "model": "mlp"}}),
    "no variant to the letter": Wrong({"learner": {"name": "push-sum", "fidelity": "paper"}}),
    "visits of once": Wrong({"learner": {"name": "gradient-walk", "visits": 2}}),
    "chebyshev without a gap": Wrong({"learner": {"name": "muffliato", "chebyshev": True}}),
    "a batch that fits no message": Wrong({"learner": {"name": "golf", "batch": 5000}}),
    "deep-q, which is not paid for": Wrong({"learner": {"name": "without-replacement", "controller": "deep-q"}}),
    "no noise": Wrong({"privacy": {"epsilon": float("inf")}}),
    "a budget that promises nothing": Wrong({"privacy": {"epsilon": 501.0}}),
    "δ of one": Wrong({"privacy": {"delta": 1.0}}),
    "ranges from records": Wrong({"data": {"ranges": "training"}}),
    "windows that are not declared": Wrong({"privacy": {"unit": "window"}}),
    "a window for a learner of records": Wrong({"learner": {"name": "golf"}, "privacy": {"unit": "window"}}),
    "a regression by a classifier": Wrong({"data": {"classes": 1}, "learner": {"model": "softmax"}}),
    "half of a separate vault": Wrong({"vault": {"socket": "vault.sock"}}),
    "metrics for everybody": Wrong({"observe": {"metrics": "0.0.0.0:9464"}}),
    "an address without a port": Wrong({"transport": {"listen": "127.0.0.1"}}),
    "everywhere, and nowhere to be found": Wrong({"transport": {"listen": "0.0.0.0:7400"}}),
    "mqtt without a broker": Wrong({"transport": {"use": ["mqtt"]}}),
    "a budget of no bytes": Wrong({"agent": {"bytes_per_day": 5}}),
    "a transform that there is not": Wrong({"data": {"transform": "centre-unit"}}),
    "a transform that does not fit": Wrong({"data": {"transform": "pool(3)"}}),
    "a model that fits no message": Wrong({"learner": {"model": "mlp", "hidden": 4096}, "data": {"classes": 10_000}}),
    "a graph that is not listed": Wrong({"learner": {"model": "own.onnx"}}),
    "more noise than there is": Wrong({"privacy": {"epsilon": 1e-9}}),
    "no records": Wrong(act=lambda device: device.records.unlink()),
    "records of another number of features": Wrong({"data": {"features": 23}}),
    "records of another number of classes": Wrong({"data": {"classes": 4}}),
    "a label out of range": Wrong(act=records(y=np.array([0, 1, 2, 3, 1, 0]))),
    "a value that is no number": Wrong(act=records(X=np.full((6, 4), np.nan))),
    "labels for half of the records": Wrong(act=records(y=np.arange(3))),
    "records that are no npz": Wrong(act=lambda device: device.records.write_bytes(b"nothing")),
    "a kind of data that there is not": Wrong({"data": {"source": "parquet:x.pq"}}),
    "no state directory": Wrong({"agent": {"state": "elsewhere"}}, elsewhere=True),
    "a file for a state directory": Wrong({"agent": {"state": "agent.toml"}}, elsewhere=True),
    "a state directory with too long a path": Wrong({"agent": {"state": "d" * 120}}),
    "no ledger": Wrong(act=lambda device: device.ledger.unlink()),
    "a ledger for another ε": Wrong({"privacy": {"epsilon": 1.0}}),
    "a ledger for another δ": Wrong({"privacy": {"delta": 1e-6}}),
    "a ledger for another relation": Wrong({"privacy": {"neighbouring": "replace-one"}}),
    "another way of joining": Wrong({"identity": {"mode": "pinned"}}),
    "a readers' socket in no directory": Wrong({"agent": {"readers_socket": "/nowhere/at/all/readers.sock"}}),
    "a readers' socket with too long a path": Wrong({"agent": {"readers_socket": "/" + "d" * 120}}),
    "metrics where the agent listens": Wrong(act=lambda device: device.configure(observe={"metrics": device.address})),
    "scores without public records": Wrong({"learner": {"name": "pdsl"}}),
    "scores by public records that are not there": Wrong(
        {"learner": {"name": "pdsl"}, "data": {"public": "npz:/nowhere/public.npz"}}
    ),
    "scores by a kind of data that there is not": Wrong(
        {"learner": {"name": "pdsl"}, "data": {"public": "parquet:public.pq"}}
    ),
    "rounds with peers that change": Wrong({"learner": {"name": "dp-dpsgd"}, "membership": {"sampling": "newscast"}}),
    "a peer that is the device itself": Wrong(act=lambda device: device.configure([device.entry()])),
    "a peer that is listed twice": Wrong(act=lambda device: device.configure([device.entry(), device.entry()])),
    "columns of one name": Wrong({"data": {"columns": ["a", "b", "a", "c"]}}),
    "labels of one name": Wrong({"data": {"labels": ["a", "b", "b"]}}),
    "too few columns": Wrong({"data": {"columns": ["a", "b"]}}),
    "a billion records": Wrong({"data": {"expected_records": 1e9}}),
    "no records expected": Wrong({"data": {"expected_records": 0}}),
    "a batch of more than there are": Wrong({"learner": {"sampling": "poisson", "batch": 61}}),
    "a batch of all records": Wrong({"learner": {"batch": 10}}),
    "a longest period below the period": Wrong({"learner": {"period": 2.0, "longest_period": 1.0}}),
    "a hidden layer of softmax": Wrong({"learner": {"hidden": 8}}),
    "threads without a graph": Wrong({"learner": {"threads": 2}}),
    "a quantile of no quantile": Wrong({"learner": {"clip_quantile": 0.3}}),
    "a decay of no decay": Wrong({"learner": {"clip_decay": 0.3}}),
    "σ of the sound variant": Wrong({"learner": {"sigma": 1.0}}),
    "contributors of push-sum": Wrong({"learner": {"contributors": 12}}),
    "permutations of cosine": Wrong({"learner": {"name": "pdsl", "shapley": "cosine", "permutations": 9}}),
    "a gap without chebyshev": Wrong({"learner": {"name": "muffliato", "spectral_gap": 0.5}}),
    "passes with replacement": Wrong({"learner": {"name": "with-replacement", "passes": 2}}),
    "a schedule of no schedule": Wrong(
        {"learner": {"name": "without-replacement", "controller": "always-global", "release_every": 3}}
    ),
    "windows of records": Wrong({"data": {"windows": [0, 10]}}),
    "public records that score nothing": Wrong({"data": {"public": "npz:public.npz"}}),
    "an announcement without gRPC": Wrong(
        {"transport": {"use": ["mqtt"], "mqtt": {"url": "mqtt://127.0.0.1:1"}, "announce": "192.0.2.1:7400"}}
    ),
    "a broker without MQTT": Wrong({"transport": {"mqtt": {"url": "mqtts://broker:8883"}}}),
    "patience with a vault of one's own": Wrong({"vault": {"patience": 3.0}}),
    "a user of no separate vault": Wrong({"vault": {"agent_user": "root"}}),
    "remote metrics of none": Wrong({"observe": {"allow_remote": True}}),
    "a view of a static list": Wrong({"membership": {"view_size": 40}}),
    "echoes of a device alone": Wrong({"ledger": {"alone": True, "echoes": 2}}),
    "a transport that there is not": Wrong({"transport": {"use": ["grcp"]}}),
    "settings of a transport that is not in use": Wrong({"transport": {"plugins": {"pipe": {"announce": "pipe://x"}}}}),
    "a perturbation that there is not": Wrong({"learner": {"name": "golf", "perturbation": "laplas"}}),
    "settings of no meter source": Wrong({"feed": {"settings": {"every": 3}}}),
    "a listening address of another machine": Wrong({"transport": {"listen": "192.0.2.1:7400"}}),
    "a listening address of no machine": Wrong({"transport": {"listen": "no-such-host.invalid:7400"}}),
    "metrics of another machine": Wrong({"observe": {"metrics": "192.0.2.1:9464", "allow_remote": True}}),
}


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Device:
    return new_device(fleet, tmp_path / "a", records=60)


def named(name: str) -> Any:
    """Return a wrong configuration's name as a parameter, with the mark of its learner's package."""
    learner = (WRONG[name].tables or {}).get("learner", {}).get("name")
    return pytest.param(name, marks=[pytest.mark.papers] if learner in LEARNERS else [])


@pytest.mark.parametrize("name", [*map(named, WRONG)])
def test_an_error_that_stops_an_agent_is_reported_before_in_the_same_words(device: Device, name: str) -> None:
    wrong = WRONG[name]
    device.configure(**(wrong.tables or {}))
    if wrong.text.startswith("="):
        device.config.write_text(wrong.text[1:])
    elif wrong.text:
        device.config.write_text(device.config.read_text() + wrong.text)
    wrong.act(device)
    run = run_here("agent", "run", "--config", device.config)
    assert run.code in (2, 3, 4, 5, 6, 7), run
    assert "Traceback" not in run.err
    reasons = [_flat(line.removeprefix("sottovoce: ")) for line in run.err.splitlines() if " WARNING " not in line]
    reasons = [reason for reason in reasons if " INFO " not in reason]
    assert reasons
    checked = run_here("config", "check", device.config)
    assert all(reason in _flat(checked.err) for reason in reasons), f"run: {run.err}\ncheck: {checked.err}"
    assert checked.code == (0 if wrong.elsewhere else run.code)
    examined = json.loads(run_here("doctor", "--config", device.config, "--json").out)
    problems = [_flat(item["what"]) for item in examined["findings"] if item["level"] == "problem"]
    assert all(any(reason in problem for problem in problems) for reason in reasons), f"run: {run.err}\n{problems}"
    assert examined["exit_code"] == run.code


def test_an_address_used_by_another_program(device: Device) -> None:
    with socket.create_server(("127.0.0.1", device.port)):
        device.configure()
        run = run_here("agent", "run", "--config", device.config)
        assert run.code == 7
        assert "address already in use" in run.err
        reason = run.err.splitlines()[-1].removeprefix("sottovoce: ")
        checked = run_here("config", "check", device.config)
        assert (checked.code, reason in checked.err) == (7, True)
        assert reason in run_here("doctor", "--config", device.config).out


@pytest.mark.parametrize(
    "tables, act, words",
    [
        ({"data": {"bounds": [5.0, 9.0]}}, lambda _: None, "60 in column 0 (5 to 9)"),
        ({"data": {"expected_records": 6000}}, lambda _: None, "data.expected_records is 6000, but the source has 60"),
        (
            {},
            lambda device: records(X=np.empty((0, 4)), y=np.empty(0, dtype=int))(device),
            "does not contain any records",
        ),
    ],
)
def test_facts_that_only_the_owner_may_know_are_warnings(
    device: Device, tables: Tables, act: Callable[[Device], object], words: str
) -> None:
    device.configure(**tables)
    act(device)
    checked = run_here("config", "check", device.config)
    assert (checked.code, words in checked.err) == (0, True), checked.err
    examined = json.loads(run_here("doctor", "--config", device.config, "--json").out)
    assert [item["level"] for item in examined["findings"] if words in item["what"]] == ["warning"]


def test_a_correct_configuration_is_reported_as_correct(device: Device) -> None:
    device.configure()
    assert run_here("config", "check", device.config).code == 0
    assert json.loads(run_here("doctor", "--config", device.config, "--json").out)["exit_code"] == 0


def _flat(text: str) -> str:
    return " ".join(text.split())
