"""Clean machines with a real systemd: containers on a network of their own, made and removed by podman."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOME = "/root"
_IMAGE = "localhost/sottovoce-machine"
_PREFIX = "sottovoce-deb"
_NETWORK, _SUBNET = _PREFIX, "10.89.77"
_LONGEST = 600.0


class StepFailed(Exception):
    """A command on a machine did not do what it should."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A clean machine: a container with systemd.

    Attributes:
        name: host name by which others reach it.
    """

    name: str

    @property
    def container(self) -> str:
        """The name of the machine's container in podman."""
        return f"{_PREFIX}-{self.name}"

    def sh(self, script: str, *, stdin: str = "", check: bool = True) -> str:
        """Run a script as root in /root, and return what it prints.

        Raises:
            StepFailed: the script ended with a code other than 0, unless `check` is False.
        """
        command = ["podman", "exec", "-i", "-w", HOME, self.container, "bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=_LONGEST)
        if check and done.returncode:
            raise StepFailed(f"{self.name}: exit code {done.returncode}:\n{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def background(self, script: str) -> "subprocess.Popen[str]":
        """Start a script as `sh` does, without waiting for its end; its standard output can be read."""
        command = ["podman", "exec", "-w", HOME, self.container, "bash", "-euo", "pipefail", "-c", script]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def put(self, source: Path, name: str) -> None:
        """Copy a file from the machine that runs the test into root's home directory."""
        podman("cp", str(source), f"{self.container}:{HOME}/{name}")

    def reboot(self) -> None:
        """Switch the machine off without a shutdown, and on again."""
        podman("kill", "--signal", "KILL", self.container)
        podman("start", self.container)
        self.booted()

    def booted(self) -> None:
        """Wait until everything that starts at boot has been started or skipped."""
        # `degraded` is good enough: a container is not a complete machine.
        self.sh("timeout 120 systemctl is-system-running --wait || true")


def podman(*arguments: str, check: bool = True) -> str:
    """Run podman, and return what it prints.

    Raises:
        StepFailed: podman failed, unless `check` is False.
    """
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False, timeout=_LONGEST)
    if check and done.returncode:
        raise StepFailed(f"podman {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def one_line(target: str) -> Iterator[None]:
    """Exit with one line, for a target of make, that says what this machine lacks or which step failed."""
    try:
        if os.geteuid() or shutil.which("podman") is None:
            raise StepFailed("needs podman, run by root: apt-get install podman")
        podman("info")
        yield
    except (StepFailed, AssertionError) as error:
        sys.exit(f"make {target}: {error}")


@contextmanager
def machines(*names: str, release: str) -> Iterator[list[Machine]]:
    """Clean machines of a Debian release, with fixed addresses. Removes first what an earlier run left behind."""
    made, image = [Machine(name) for name in names], f"{_IMAGE}:{release}"
    _remove(made)
    build = ["--quiet", "--network=host", "--build-arg", f"RELEASE={release}", "--tag", image]
    podman("build", *build, str(Path(__file__).parent))
    podman("network", "create", "--subnet", f"{_SUBNET}.0/24", _NETWORK)
    try:
        for number, machine in enumerate(made, start=11):
            where = ["--network", _NETWORK, "--ip", f"{_SUBNET}.{number}", "--hostname", machine.name]
            podman("run", "-d", "--name", machine.container, "--systemd=always", "--privileged", *where, image)
        for machine in made:
            machine.booted()
        yield made
    finally:
        _remove(made)


def _remove(made: list[Machine]) -> None:
    for machine in made:
        podman("rm", "-f", "-t", "0", machine.container, check=False)
    podman("network", "rm", "-f", _NETWORK, check=False)
