"""Places for devices: one directory each, which one container takes and keeps."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import IdentityError

_READY = "ready"


@dataclass(frozen=True, slots=True)
class Place:
    """Place of one device.

    Attributes:
        index: index of the device in the plan.
        directory: the device's own directory, in a directory that all containers share.
    """

    index: int
    directory: Path

    @property
    def bundle(self) -> Path:
        """Bundle with which the device joins."""
        return self.directory / "bundle"

    @property
    def records(self) -> Path:
        """Records of the device, before the transform."""
        return self.directory / "records.npz"

    @property
    def template(self) -> Path:
        """Configuration of the device, without its own address."""
        return self.directory / "agent.toml"

    @property
    def state(self) -> Path:
        """State directory of the device, once it has joined."""
        return self.directory / "state"

    @property
    def config(self) -> Path:
        """Configuration that the device runs with, written at the start of each life."""
        return self.state / "agent.toml"

    @property
    def faults(self) -> Path:
        """Faults of the device's messages, one specification per line."""
        return self.directory / "faults"

    @property
    def _owner(self) -> Path:
        return self.directory / "owner"

    @property
    def taken(self) -> bool:
        """Whether a container has taken this place."""
        return self._owner.is_symlink()

    def take(self, owner: str) -> bool:
        """Take this place unless another container has it; the symbolic link appears together with its content."""
        try:
            self._owner.symlink_to(owner)
        except FileExistsError:
            return str(self._owner.readlink()) == owner
        return True


def places(root: Path, count: int) -> list[Place]:
    """Return the first `count` places below a directory, whether or not they exist yet."""
    return [Place(index, root / f"{index:03d}") for index in range(count)]


def make_ready(root: Path, count: int) -> None:
    """Record that all `count` places are complete."""
    beside = root / f"{_READY}.part"
    beside.write_text(f"{count}\n")
    beside.replace(root / _READY)


def complete_place_count(root: Path) -> int | None:
    """Return the number of complete places; None while they are still being made."""
    file = root / _READY
    return int(file.read_text()) if file.exists() else None


def wait_until_ready(root: Path, patience: float) -> list[Place]:
    """Wait until the places are complete, and return them.

    Raises:
        IdentityError: if the places are not complete within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while (count := complete_place_count(root)) is None:
        if time.monotonic() > deadline:
            raise IdentityError(
                f"{root}: no places were ready within {patience:g} s: check the log of the service `fleet`"
            )
        time.sleep(0.2)
    return places(root, count)


def claim(found: Sequence[Place], owner: str) -> Place:
    """Return the owner's place: the one from an earlier life, or the first free place.

    Raises:
        IdentityError: if all places are taken.
    """
    own = [place for place in found if place.taken and place.take(owner)]
    for place in own or found:
        if place.take(owner):
            return place
    raise IdentityError(
        f"all {len(found)} places are taken: start as many agents as SOTTOVOCE_AGENTS says, or start again with a "
        "larger number and without the old volumes"
    )
