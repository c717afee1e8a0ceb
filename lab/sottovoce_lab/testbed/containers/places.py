"""Device directories, each of which one container claims and keeps across restarts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import IdentityError

_READY = "ready"


@dataclass(frozen=True, slots=True)
class Place:
    """A device directory that a container can claim.

    Attributes:
        index: the device's index in the plan.
        directory: the device's own directory, inside a directory that all containers share.
    """

    index: int
    directory: Path

    @property
    def bundle(self) -> Path:
        """The bundle that the device uses to join the fleet."""
        return self.directory / "bundle"

    @property
    def records(self) -> Path:
        """The file with the device's records, before the transform."""
        return self.directory / "records.npz"

    @property
    def template(self) -> Path:
        """The device's configuration file, without the device's own address."""
        return self.directory / "agent.toml"

    @property
    def state(self) -> Path:
        """The device's state directory, which exists once the device has joined."""
        return self.directory / "state"

    @property
    def config(self) -> Path:
        """The configuration file that the device runs with, rewritten each time its container starts."""
        return self.state / "agent.toml"

    @property
    def faults(self) -> Path:
        """The file that lists the device's message faults, one specification per line."""
        return self.directory / "faults"

    @property
    def _owner(self) -> Path:
        return self.directory / "owner"

    @property
    def is_claimed(self) -> bool:
        """Whether a container has claimed this place."""
        return self._owner.is_symlink()

    def try_claim(self, owner: str) -> bool:
        """Claim this place for a container; return False if another container already has it.

        The claim is a symbolic link, which appears together with its content.
        """
        try:
            self._owner.symlink_to(owner)
        except FileExistsError:
            return str(self._owner.readlink()) == owner
        return True


def places(root: Path, count: int) -> list[Place]:
    """Return the first `count` places in a root directory, whether or not they exist yet."""
    return [Place(index, root / f"{index:03d}") for index in range(count)]


def mark_ready(root: Path, count: int) -> None:
    """Record that all `count` places are complete."""
    draft = root / f"{_READY}.part"
    draft.write_text(f"{count}\n")
    draft.replace(root / _READY)


def complete_place_count(root: Path) -> int | None:
    """Return the number of device directories once all are ready, or None until then."""
    file = root / _READY
    return int(file.read_text()) if file.exists() else None


def wait_until_ready(root: Path, timeout: float) -> list[Place]:
    """Wait until all device directories are ready, and return them.

    Raises:
        IdentityError: if they are not ready within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while (count := complete_place_count(root)) is None:
        if time.monotonic() > deadline:
            raise IdentityError(
                f"{root}: no device directories were ready after {timeout:g} s: check the logs of the `fleet` service"
            )
        time.sleep(0.2)
    return places(root, count)


def claim(candidates: Sequence[Place], owner: str) -> Place:
    """Return the place that the owner claimed before a restart, or claim the first free place for it.

    Raises:
        IdentityError: if other containers have claimed all places.
    """
    claimed = [place for place in candidates if place.is_claimed and place.try_claim(owner)]
    for place in claimed or candidates:
        if place.try_claim(owner):
            return place
    raise IdentityError(
        f"all {len(candidates)} places are taken: start no more agents than SOTTOVOCE_AGENTS specifies, or remove the "
        "old volumes and start again with a larger number"
    )
