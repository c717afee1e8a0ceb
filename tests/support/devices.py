"""Set up a fleet's devices without the testbed, with the keys, records and configuration that an operator would use."""

import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
from numpy.typing import NDArray
from sottovoce.config import load
from sottovoce.data import apply, width
from sottovoce.fleet import Identity, Validity
from sottovoce.kernels.softmax import Softmax
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.node.local_vault import LEDGER
from sottovoce.node.own_task import build_task
from sottovoce.node.state_directory import state_files
from sottovoce.privacy.vault import Budget
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.join import join

FEATURES, CLASSES = 4, 3
_PORTS = range(12_000, 20_000)  # below the testbed's ports, and below the system's ports for outgoing connections
_BLOCK = 1000
_CENTRES = np.array([[0.9, 0.1, 0.1, 0.2], [0.1, 0.9, 0.2, 0.1], [0.1, 0.2, 0.9, 0.8]])

Tables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Device:
    """Device that has joined.

    Attributes:
        state: state directory of the device.
        identity: keys and certificates of the device.
        port: port of 127.0.0.1 on which the device will listen.
    """

    state: Path
    identity: Identity
    port: int

    @property
    def id(self) -> str:
        return self.identity.node_id

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.state.with_suffix(".toml")

    @property
    def task(self) -> bytes:
        """Digest of the task that the device learns."""
        return build_task(load(self.config)).digest

    @property
    def ledger(self) -> Path:
        return self.state / LEDGER

    @property
    def records(self) -> Path:
        return self.state.with_suffix(".npz")

    def entry(self, *, address: str | None = None) -> dict[str, str]:
        """Return the configuration entry for this device as a peer of another device."""
        return {"id": self.id, "address": address or self.address}

    def configure(self, peers: Iterable[Mapping[str, str]] = (), /, **tables: Mapping[str, Any]) -> "Device":
        """Write the device's configuration; `tables` override single keys. Without peers, the device contacts none.

        A device that has finished learning keeps mixing at the same period, so its mass can be accounted for.
        """
        peers = list(peers)
        own = ALGORITHMS[tables.get("learner", {}).get("name", "clipd2p")].own_keys
        period = tables.get("learner", {}).get("period", 0.05)
        learner = {"period": period, "steps": 20, "longest_period": period}
        if "steps" in own:
            learner["mixing"] = "push-sum"
        usual: dict[str, dict[str, Any]] = {
            "agent": {"state": self.state.name},
            "data": {
                "source": f"npz:{self.records}",
                "features": FEATURES,
                "classes": CLASSES,
                "expected_records": 60,
                "bounds": [0.0, 1.0],
            },
            "learner": {key: value for key, value in learner.items() if key in own},
            "privacy": {"epsilon": 2.0},
            "transport": {
                "listen": self.address,
                "timeout": 20.0,
                "backoff": 0.05,
                "backoff_max": 0.3,
                "peers": peers,
            },
            "membership": {"sampling": "static"},
            "ledger": {"alone": not peers},
        }
        if "grpc" not in tables.get("transport", {}).get("use", ["grpc"]):
            usual["transport"].pop("listen")
        self.config.write_text(
            tomlkit.dumps({name: {**usual.get(name, {}), **tables.get(name, {})} for name in {**usual, **tables}})
        )
        return self

    def hold(self, features: NDArray[np.float64], labels: NDArray[np.int64]) -> "Device":
        """Write the device's records to its file."""
        np.savez(self.records, X=features, y=labels, classes=np.array(CLASSES))
        return self


def new_device(
    fleet: Fleet,
    state: Path,
    *,
    seed: int = 0,
    records: int = 60,
    epsilon: float = 2.0,
    validity: Validity | None = None,
    neighbouring: str = "add-remove",
) -> Device:
    """Make a device with records and a ledger, not yet configured."""
    identity = join(fleet, state, Budget(epsilon, 1e-5, "record", neighbouring), validity)
    return Device(state, identity, free_port()).hold(*draw_records(records, seed))


def draw_records(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw records of three classes that a linear model separates, each feature within [0, 1]."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    return np.clip(_CENTRES[labels] + random.normal(0, 0.05, (count, FEATURES)), 0, 1), labels


def accuracy(model: NDArray[np.float64]) -> float:
    """Return the accuracy of a model on records of the same kind that no device holds."""
    features, labels = draw_records(600, 2**31)
    bounds = (np.zeros(FEATURES), np.ones(FEATURES))
    predicted = kernel().predict(model[np.newaxis], apply("centred-unit", features, bounds))
    return float((predicted == labels).mean())


def kernel() -> Softmax:
    """Return the model that these devices learn."""
    return Softmax(width("centred-unit", FEATURES), CLASSES)


def identity_files(device: Device) -> Path:
    """Return the directory of a device's keys and certificates."""
    return state_files(device.state)[0]


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens; no other caller in any process gets this port."""
    return next(_FREE)


def _free_ports() -> Iterator[int]:
    """Yield the ports block by block; a block is reserved as long as its first port is bound."""
    for first in range(_PORTS.start, _PORTS.stop, _BLOCK):
        with socket.socket() as claim:
            if _bound(claim, first):
                for port in range(first + 1, first + _BLOCK):
                    with socket.socket() as probe:
                        free = _bound(probe, port)
                    if free:
                        yield port
    raise AssertionError("no port is left: other tests are running here, or this run makes thousands of devices")


def _bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


_FREE = _free_ports()
