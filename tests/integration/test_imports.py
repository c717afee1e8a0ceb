"""Imports of a running agent: heavy packages do not belong on a small device."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sottovoce.errors import NetworkError
from sottovoce.node.control import ask
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

# `sottovoce agent run`, which prints its imports when it ends
_RUN = """
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules)))
from sottovoce.cli.main import main
sys.argv = ["sottovoce", "agent", "run", "--config", sys.argv[1]]
main()
"""
_HEAVY = {
    "onnx", "onnxruntime", "scipy", "sklearn", "pandas", "rich", "pydantic", "tomlkit", "pygments", "torch",
    "matplotlib", "dask", "distributed", "hypothesis", "pytest", "dp_accounting", "markdown_it", "attr",
    "prometheus_client", "typer", "sottovoce_home",
}  # fmt: skip
_OWN_HEAVY = {"sottovoce_lab.testbed", "sottovoce_lab.simulator", "sottovoce_lab.models", "sottovoce.kernels.onnx"}


@pytest.fixture(scope="module")
def imported_modules(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all modules that an agent imported during some cycles, including an exchange with a peer."""
    directory = tmp_path_factory.mktemp("imports")
    devices = [new_device(fleet, directory / name) for name in "ab"]
    for item, other in (devices, devices[::-1]):
        item.configure([other.entry()], learner={"steps": 3})
    command = [sys.executable, "-c", _RUN]
    processes = [
        subprocess.Popen([*command, device.config], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for device in devices
    ]
    try:
        for device in devices:
            until(lambda device=device: _has_worked(device.state), "it has learnt, sent and received")  # type: ignore[misc]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        outputs = [process.communicate(timeout=TIMEOUT) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    return set(outputs[0][0].split())


def _has_worked(state: Path) -> bool:
    try:
        status = ask(state, "status")
    except NetworkError:
        return False
    traffic = status["traffic"]
    return bool(status["steps_done"] == 3 and traffic["received"] > 0 and traffic["messages"] > 1)


def test_a_working_agent_imports_nothing_heavy(imported_modules: set[str]) -> None:
    assert {"grpc", "numpy", "sottovoce", "msgspec", "sqlite3"} <= imported_modules, "the agent itself answered"
    assert not {name.partition(".")[0] for name in imported_modules} & _HEAVY
    assert not {name for name in imported_modules if name.rpartition(".")[0] in _OWN_HEAVY}


def test_an_agent_never_imports_testbed_modules() -> None:
    code = "import sottovoce.node.assemble, sottovoce.cli.command, sys; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name for name in names if name.rpartition(".")[0] in _OWN_HEAVY}
    assert "numpy.random" not in names, "7 MiB, only for simulations"
    assert not {name.partition(".")[0] for name in names} & (_HEAVY - {"typer"})
