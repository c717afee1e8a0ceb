"""Small disks for a device's state, which fill up and can be made to fail."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sottovoce.errors import NetworkError
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, draw_records, new_device
from tests.support.processes import AgentProcess
from tests.support.waiting import until


def device_on(disk: Path, fleet: Fleet, home: Path) -> Device:
    """Make a device with only its state on the small disk."""
    device = new_device(fleet, disk / "a")
    (home / "a").symlink_to(disk / "a")
    device.records.unlink()
    return replace(device, state=home / "a").hold(*draw_records(60, 0))


def fill_disk(disk: Path) -> Path:
    """Fill a disk until no room is left, and return the file that fills it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 512)
        except OSError:
            return filler


def is_working(agent: AgentProcess) -> bool:
    """Check whether the agent answers with its status instead of only reporting that it waits."""
    try:
        agent.status()
    except NetworkError:
        return False
    return True


@contextmanager
def mounted(directory: Path, *mount_options: str) -> Iterator[Path]:
    """Mount a disk on this directory, with these arguments of mount(8)."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    directory.mkdir(exist_ok=True)
    _mount(directory, *mount_options)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def _mount(directory: Path, *mount_options: str) -> None:
    completed = subprocess.run(["mount", *mount_options, directory], capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {completed.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class FailingDisk:
    """An ext4 file system that a test can break: after an error, Linux makes it read-only.

    Attributes:
        image: image file of the file system.
        at: mount point of the file system.
    """

    image: Path
    at: Path

    def fail(self) -> None:
        """Trigger an error in the file system."""
        device = subprocess.run(
            ["findmnt", "-no", "SOURCE", self.at], capture_output=True, text=True, check=True
        ).stdout
        Path("/sys/fs/ext4", Path(device.strip()).name, "trigger_fs_error").write_text("by a test\n")

    def repair(self, agent: AgentProcess) -> None:
        """Repair the disk: stop the agent that uses it, unmount, check and mount it, and let the agent continue."""
        until(lambda: self._try_to_unmount(agent), "no process has a file open between two attempts")
        subprocess.run(["e2fsck", "-fy", self.image], check=False, capture_output=True)  # exit code 1: repaired
        _mount(self.at, *_HOW, str(self.image))
        agent.process.send_signal(signal.SIGCONT)

    def _try_to_unmount(self, agent: AgentProcess) -> bool:
        agent.process.send_signal(signal.SIGSTOP)
        is_unmounted = subprocess.run(["umount", self.at], capture_output=True, check=False).returncode == 0
        if not is_unmounted:
            agent.process.send_signal(signal.SIGCONT)
        return is_unmounted


_HOW = ("-t", "ext4", "-o", "loop,errors=remount-ro")


@contextmanager
def failing_disk(directory: Path) -> Iterator[FailingDisk]:
    """Make a failing disk of 32 MiB, mounted below this directory."""
    disk = FailingDisk(directory / "disk.img", directory / "disk")
    with disk.image.open("wb") as image:
        image.truncate(2**25)
    completed = subprocess.run(["mkfs.ext4", "-q", disk.image], capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        pytest.skip(f"no file system can be made here: {completed.stderr.strip()}")
    with mounted(disk.at, *_HOW, str(disk.image)):
        yield disk
