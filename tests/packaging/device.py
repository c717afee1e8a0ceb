"""Questions to a machine that the package is installed on, and checks of the answers."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import apply
from sottovoce.kernels.softmax import Softmax

from tests.packaging.machines import Machine, StepFailed
from tests.support.waiting import until

T = TypeVar("T")
STEPS = 48
EPSILON = 2.0
PATIENCE = 300.0
VAULT = "/var/lib/sottovoce-vault"
UNITS = ("sottovoce-agent", "sottovoce-vault")
_ASKED = """
import json
from pathlib import Path
from sottovoce.node.control import ask, decode_parameters
print(json.dumps(decode_parameters(ask(Path("/var/lib/sottovoce"), "model")).tolist()))
"""
_NOT_OURS = (
    r"/(proc|sys|dev|run|tmp|root)/|/var/(lib/(apt|dpkg|systemd)|backups|log|cache|tmp)/"
    r"|/etc/(passwd|group|g?shadow|subu?gid)"
)


@contextmanager
def step(words: str) -> Iterator[None]:
    """Print what is being done, and at the end how long it took."""
    print(f"--> {words}", flush=True)
    begun = time.monotonic()
    yield
    print(f"    passed, {time.monotonic() - begun:.0f} s", flush=True)


def check(holds: bool, words: str) -> None:
    """Print whether the condition holds, and raise StepFailed if it does not."""
    print(f"    {'ok  ' if holds else 'NOT '} {words}", flush=True)
    if not holds:
        raise StepFailed(words)


def eventually(condition: Callable[[], T], words: str) -> T:
    """Wait for a condition that takes its time to hold, and print it."""

    def asked() -> T | None:
        try:
            return condition()
        except (StepFailed, ValueError, KeyError):
            time.sleep(0.5)
            return None

    found = until(asked, words, PATIENCE)
    check(True, words)
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state of a device's ledger: owner, charges, releases and spent ε."""

    owner: str
    charges: int
    releases: int
    epsilon: float

    @classmethod
    def of(cls, machine: Machine) -> "Ledger":
        shown = json.loads(machine.sh(f"sottovoce ledger show --state {VAULT} --json"))
        return cls(shown["owner"], shown["charges"], shown["releases"], shown["spent_epsilon"])

    def goes_on_in(self, later: "Ledger", words: str, steps: int = STEPS) -> None:
        """Check that no charge is forgotten, and that no more is charged than was planned."""
        same = later.owner == self.owner and later.charges >= self.charges and later.releases >= self.releases
        check(same, f"{words}: {self.charges} charges before, {later.charges} after, of the same device")
        within = later.releases <= later.charges <= steps and self.epsilon <= later.epsilon <= EPSILON + 1e-9
        check(within, f"{words}: {later.releases} releases, ε {later.epsilon:.3f} of {EPSILON:g}")


def status(machine: Machine) -> dict[str, Any]:
    """The status that the agent reports."""
    answer: dict[str, Any] = json.loads(machine.sh("sottovoce agent status --json --config /etc/sottovoce/agent.toml"))
    return answer


def property_of(machine: Machine, unit: str, name: str) -> str:
    return machine.sh(f"systemctl show --property={name} --value {unit}").strip()


def running(machine: Machine) -> bool:
    return all(property_of(machine, unit, "ActiveState") == "active" for unit in UNITS)


def days(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Days of a household, float64[count, 24] in kWh, and what kind of day each was, int64[count]."""
    hours, random = np.arange(24), np.random.default_rng(seed)
    evening, noon = 0.5 * np.exp(-(((hours - 19) / 2.0) ** 2)), 0.3 * np.exp(-(((hours - 13) / 3.0) ** 2))
    kinds = random.integers(0, 3, count)
    usual = np.stack([evening, evening + noon, evening + 0.4 * (hours < 4)])[kinds]
    return np.clip(usual + random.exponential(0.2, (count, 24)), 0, 10), kinds


def model(machine: Machine) -> NDArray[np.float64]:
    """A device's public model, float64[P]."""
    return np.array(json.loads(machine.sh("/usr/lib/sottovoce/bin/python3 -I -", stdin=_ASKED)), dtype=np.float64)


def accuracy(machine: Machine) -> float:
    """The accuracy of a device's public model on days that no device holds."""
    features, labels = days(2000, 99)
    transformed = apply("centred-unit", features, (np.zeros(24), np.full(24, 10.0)))
    return float((Softmax(features=25, classes=3).predict(model(machine)[None], transformed)[0] == labels).mean())


def files(machine: Machine) -> set[str]:
    """Every file and directory that a package could have made."""
    found = machine.sh("find / -xdev -mindepth 1 2>/dev/null || true").splitlines()
    return {path for path in found if not re.match(_NOT_OURS, path + "/")}
