"""The package for a Raspberry Pi, on any machine: Debian for arm64, whose programs are run by qemu's user emulation.

Nothing of arm64 is executed but Python itself, so the kernel need not know how to start such programs. The emulation
cannot let a process shut itself in, so the vault is inside the agent here.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.agent.control import ask

from tests.packaging.device import days
from tests.packaging.machines import HOME
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
STEPS = 4
_EMULATOR = shutil.which("qemu-aarch64-static")
_NEEDED = "needs root, debootstrap and qemu-user-static"
_CONFIGURATION = """
[agent]
state = "{name}"

[data]
source = "npz:{name}.npz"
features = 24
classes = 3
expected_records = 400
bounds = [0.0, 10.0]

[learner]
period = 5.0
steps = {steps}

[membership]
period = 5.0

[transport]
listen = "127.0.0.1:{port}"
peers = [{{ id = "{peer}", address = "127.0.0.1:{peer_port}" }}]
"""


def foreign(root: Path) -> None:
    """Debian for arm64, unpacked and not configured."""
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    archive = subprocess.run(targets, capture_output=True, text=True, check=True).stdout.split()[0]
    debian = ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", "--include=python3", "bookworm"]
    subprocess.run([*debian, str(root), archive], check=True, stdout=subprocess.DEVNULL)
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    shutil.copy(str(_EMULATOR), root / "usr/bin")


def command(root: Path, *arguments: str) -> list[str]:
    """The package's own command, in there."""
    home = "/usr/lib/sottovoce/bin"
    return [
        "chroot",
        str(root),
        f"/usr/bin/{Path(str(_EMULATOR)).name}",
        f"{home}/python3",
        "-I",
        f"{home}/sottovoce",
        *arguments,
    ]


def sottovoce(root: Path, *arguments: str) -> str:
    done = subprocess.run(command(root, *arguments), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def agent(root: Path, name: str) -> Iterator[Path]:
    """An agent at work; its state directory, as seen from here."""
    state = root / "root" / name
    with subprocess.Popen(command(root, "agent", "run", "--config", f"{HOME}/{name}.toml")) as process:
        try:
            until(lambda: process.poll() is not None or (state / "agent.sock").exists(), "it is ready", PATIENCE)
            assert process.poll() is None
            yield state
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def status(state: Path) -> dict[str, Any]:
    return ask(state, "status", 60.0)


def learnt(state: Path) -> bool:
    answer = status(state)
    return bool(answer["steps_done"] == STEPS and answer["traffic"]["received"])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.getuid() != 0 or not _EMULATOR or not shutil.which("debootstrap"), reason=_NEEDED)
def test_two_devices_of_another_architecture_learn_together(tmp_path: Path) -> None:
    build = [str(ROOT / "deploy/debian/build")]
    package = subprocess.run(build, env={**os.environ, "ARCH": "arm64"}, capture_output=True, text=True, check=True)
    root = tmp_path / "arm64"
    foreign(root)
    subprocess.run(["dpkg-deb", "-x", str(ROOT / package.stdout.strip()), str(root)], check=True)
    print(sottovoce(root, "--version"))
    sottovoce(root, "config", "check", "/etc/sottovoce/agent.toml")
    sottovoce(root, "fleet", "init", "--name", "arm", "--fleet", f"{HOME}/fleet")
    names, ports, ids = ("one", "two"), (17411, 17412), []
    for seed, name in enumerate(names):
        features, labels = days(400, seed)
        np.savez(root / "root" / f"{name}.npz", X=features, y=labels, classes=3)
        ids.append(sottovoce(root, "fleet", "join", "--fleet", f"{HOME}/fleet", "--state", f"{HOME}/{name}"))
    for here, there in ((0, 1), (1, 0)):
        text = _CONFIGURATION.format(
            name=names[here], port=ports[here], peer=ids[there], peer_port=ports[there], steps=STEPS
        )
        (root / "root" / f"{names[here]}.toml").write_text(text)
    with ExitStack() as stack:
        states = [stack.enter_context(agent(root, name)) for name in names]
        until(lambda: all(learnt(state) for state in states), "both take every step, and hear each other", PATIENCE)
        for state in states:
            answer = status(state)
            print(answer["cycle"], answer["traffic"], answer["privacy"]["spent_epsilon"])
            assert answer["privacy"]["charges"] == answer["privacy"]["releases"] == STEPS
