"""`make arm64-test`: packages for a Raspberry Pi, on any machine with root access.

For each release, a Debian for arm64 whose programs the kernel starts through qemu's user emulation; no systemd runs in
it. The emulation does not support the vault's confinement, so the agent holds the vault here. The test shows
correctness, not speed or memory.

The test's mounts are in a namespace of their own and end with it, so that clearing temporary files never reaches a
mount of this machine. The machine's /dev is not mounted. Do not run it beside `make deb-test`: systemd in a privileged
container takes the emulator away from the kernel.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.node.control import ask

from tests.packaging import integers
from tests.packaging.device import days
from tests.packaging.machines import HOME
from tests.packaging.package import RELEASES, build, version
from tests.packaging.page import walk
from tests.support.waiting import until

PATIENCE = 600.0
STEPS = 4
BINFMT = Path("/proc/sys/fs/binfmt_misc")
_EMULATOR = shutil.which("qemu-aarch64-static")
_NEEDED = "needs root, debootstrap, qemu-user-static and a mount namespace of its own: make arm64-test"
_PROGRAM = r":qemu-aarch64:M::\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00:"
_MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
_CONFIGURATION = """
[agent]
state = "{name}"

[data]
source = "npz:{name}.npz"
features = {features}
classes = {classes}
expected_records = 400
bounds = [0.0, 10.0]

[learner]
period = 5.0
steps = {steps}
{model}

[membership]
period = 5.0

[transport]
listen = "127.0.0.1:{port}"
peers = [{peers}]

[ledger]
alone = {alone}
"""


def _possible() -> bool:
    if os.getuid() != 0 or not _EMULATOR or not shutil.which("debootstrap"):
        return False
    return os.environ.get("MOUNTS_OUTSIDE", here := str(Path("/proc/self/ns/mnt").readlink())) != here


pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not _possible(), reason=_NEEDED),
]


@pytest.fixture(scope="module", params=os.environ.get("RELEASES", "").split() or RELEASES)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of a machine, with the package installed as apt-get would install it."""
    release = str(request.param)
    package = build(release, "arm64")
    root = tmp_path_factory.mktemp("arm64") / "root"
    _programs_of_arm64()
    with _debian(root, release):
        shutil.copy(package, root / "root")
        installed = inside(root, "dpkg", "--install", f"{HOME}/{package.name}")
        assert "sottovoce fleet join --token -" in installed, "installing says the next command"
        assert version(package).startswith(f"{sottovoce(root, '--version').split()[-1]}-")
        yield root
        inside(root, "dpkg", "--purge", "sottovoce")
        assert not (root / "usr/lib/sottovoce").exists()


def test_integers_are_those_of_this_machine(machine: Path) -> None:
    shutil.copy(str(integers.__file__), machine / "root")
    here = subprocess.run([sys.executable, str(integers.__file__)], capture_output=True, text=True, check=True).stdout
    assert inside(machine, "/usr/lib/sottovoce/bin/python3", "-I", f"{HOME}/integers.py") == here.strip()


def test_two_devices_learn_together(machine: Path) -> None:
    sottovoce(machine, "fleet", "init", "--name", "arm", "--fleet", f"{HOME}/fleet")
    names, ports, ids = ("one", "two"), (17411, 17412), []
    for seed, name in enumerate(names):
        features, labels = days(400, seed)
        np.savez(machine / "root" / f"{name}.npz", X=features, y=labels, classes=3)
        ids.append(sottovoce(machine, "fleet", "join", "--fleet", f"{HOME}/fleet", "--state", f"{HOME}/{name}"))
    for here, there in ((0, 1), (1, 0)):
        peer = f'{{ id = "{ids[there]}", address = "127.0.0.1:{ports[there]}" }}'
        configure(machine, names[here], ports[here], STEPS, peers=peer)
    with ExitStack() as stack:
        states = [stack.enter_context(agent(machine, name)) for name in names]
        until(lambda: all(learnt(state) for state in states), "both take every step, and hear each other", PATIENCE)
        for state in states:
            answer = status(state)
            print(answer["cycle"], answer["traffic"], answer["privacy"]["spent_epsilon"])
            assert answer["privacy"]["charges"] == answer["privacy"]["releases"] == STEPS
        output = sottovoce(machine, "agent", "status", "--why", "--config", f"{HOME}/one.toml")
        assert ids[0] in output
        assert "spent" in sottovoce(machine, "ledger", "show", "--state", f"{HOME}/one")


def test_a_device_takes_a_step_of_a_convolutional_model(machine: Path) -> None:
    sottovoce(machine, "fleet", "init", "--name", "images", "--fleet", f"{HOME}/images")
    sottovoce(machine, "fleet", "join", "--fleet", f"{HOME}/images", "--state", f"{HOME}/camera")
    random = np.random.default_rng(0)
    images, labels = random.uniform(0, 10, (20, 784)), random.integers(0, 10, 20)
    np.savez(machine / "root" / "camera.npz", X=images, y=labels, classes=10)
    configure(machine, "camera", 17413, 1, features=784, classes=10, model="mnist-cnn")
    with agent(machine, "camera") as state:
        until(lambda: status(state)["steps_done"] == 1, "it takes the step", PATIENCE)
    told = _run(machine, "sottovoce", "model", "show", "mnist-cnn")
    assert told.returncode == 3
    assert "on a workstation" in told.stderr


def test_the_commands_of_the_page_are_there(machine: Path) -> None:
    """`make deb-test` also runs them, with systemd and other machines."""
    commands = {tuple(line.split()[:3]) for block in walk() for line in block.commands if line.startswith("sottovoce ")}
    assert len(commands) > 5
    for command in sorted(commands):
        words = [word for word in command if not word.startswith("-")]
        assert "Usage:" in inside(machine, *words, "--help"), command


def configure(
    root: Path,
    name: str,
    port: int,
    steps: int,
    *,
    features: int = 24,
    classes: int = 3,
    peers: str = "",
    model: str = "",
) -> None:
    """Write a device's configuration, and have the command check it on the machine."""
    text = _CONFIGURATION.format(
        name=name, port=port, steps=steps, features=features, classes=classes, peers=peers,
        model=f'model = "{model}"' if model else "", alone=str(not peers).lower(),
    )  # fmt: skip
    (root / "root" / f"{name}.toml").write_text(text)
    sottovoce(root, "config", "check", f"{HOME}/{name}.toml")


def inside(root: Path, *command: str) -> str:
    """Run a command on the machine, which must succeed, and return its output."""
    done = _run(root, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def sottovoce(root: Path, *arguments: str) -> str:
    return inside(root, "sottovoce", *arguments)


def _run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME, "LC_ALL": "C.UTF-8"}
    environment |= {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        ["chroot", str(root), *command], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@contextmanager
def agent(root: Path, name: str) -> Iterator[Path]:
    """Run an agent; yields its state directory, as seen from outside the machine."""
    state = root / "root" / name
    run = ["chroot", str(root), "sottovoce", "agent", "run", "--config", f"{HOME}/{name}.toml"]
    with subprocess.Popen(run) as process:
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


def _programs_of_arm64() -> None:
    """Have the kernel run arm64 programs through the emulator, which it opens now: a root needs no copy of it."""
    if not (BINFMT / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)], check=True)
    if not (BINFMT / "qemu-aarch64").exists():
        (BINFMT / "register").write_text(f"{_PROGRAM}{_MASK}:{_EMULATOR}:F")


@contextmanager
def _debian(root: Path, release: str) -> Iterator[None]:
    """Make a Debian for arm64 with all that the package depends on; no systemd runs in it."""
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    archive = subprocess.run(targets, capture_output=True, text=True, check=True).stdout.split()[0]
    needed = "python3,systemd,init-system-helpers,libstdc++6"
    debian = ["debootstrap", "--arch=arm64", "--variant=minbase", f"--include={needed}", release, str(root), archive]
    subprocess.run(debian, check=True, stdout=subprocess.DEVNULL)
    proc = str(root / "proc")
    subprocess.run(["mount", "-t", "proc", "proc", proc], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", proc], check=True)
