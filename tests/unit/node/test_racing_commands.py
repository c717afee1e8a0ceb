"""Commands that change one directory at the same time: each change is kept, and a version names one content."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest
from sottovoce.errors import IdentityError
from sottovoce.fleet import load
from sottovoce.fleet.files import exclusive, replace, write_new
from sottovoce.fleet.identity import IDENTITY
from sottovoce.fleet.invitation import Seeds
from sottovoce.fleet.keys import node_id
from sottovoce.fleet.new_device import DeviceKeys
from sottovoce.fleet.signed_task import load_task, store_task
from sottovoce.net.wire.revocation import RevocationList
from sottovoce.node.gossip.revocation_store import load_revocation_list, store_revocation_list
from sottovoce.node.state_directory import Join
from sottovoce.privacy.vault import Budget
from sottovoce_operator.fleet import Fleet, create_fleet, open_fleet
from sottovoce_operator.fleet.bundles import new_bundle, write_bundle
from sottovoce_operator.fleet.join import join
from sottovoce_operator.fleet.rotation import rotate
from sottovoce_operator.fleet.signing import propose, revoke

COMMANDS = 12
BUDGET = Budget(2.0, 1e-5, "record", "add-remove")
T = TypeVar("T")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return create_fleet(tmp_path / "fleet", "street")


def race(command: Callable[[int], T]) -> list[T | IdentityError]:
    """Run a command twelve times at once, and return what each returned or the error with which it was refused."""
    start = Barrier(COMMANDS)

    def run(index: int) -> T | IdentityError:
        start.wait()
        try:
            return command(index)
        except IdentityError as error:
            return error

    with ThreadPoolExecutor(COMMANDS) as threads:
        return list(threads.map(run, range(COMMANDS)))


def test_every_racing_revocation_is_kept(tmp_path: Path, fleet: Fleet) -> None:
    devices = [node_id(DeviceKeys.generate().device.public_key()) for _ in range(COMMANDS)]
    lists = race(lambda index: revoke(tmp_path / "fleet", fleet, [devices[index]]))
    assert sorted(signed.version for signed in lists if isinstance(signed, RevocationList)) == list(range(1, 13))
    final = load_revocation_list(tmp_path / "fleet", fleet.authority)
    assert final is not None
    assert final.node_ids == tuple(sorted(devices))


def test_racing_tasks_have_different_epochs(tmp_path: Path, fleet: Fleet) -> None:
    tasks = race(lambda index: propose(tmp_path / "fleet", fleet, {"task": {"name": f"task-{index}"}}, {}))
    assert sorted(task.epoch for task in tasks if not isinstance(task, IdentityError)) == list(range(1, 13))
    final = load_task(tmp_path / "fleet", fleet.authority)
    assert final is not None
    assert final.epoch == COMMANDS


def test_every_racing_rotation_succeeds(tmp_path: Path, fleet: Fleet) -> None:
    rotations = race(lambda _: rotate(tmp_path / "fleet", 86_400))
    assert sorted(len(rotated.changes) for rotated in rotations if isinstance(rotated, Fleet)) == list(range(1, 13))
    assert len(open_fleet(tmp_path / "fleet").changes) == COMMANDS


def test_a_fleet_that_is_opened_while_its_key_changes_has_a_key_and_a_certificate_that_match(
    tmp_path: Path, fleet: Fleet
) -> None:
    directory = tmp_path / "fleet"
    opened = race(lambda index: rotate(directory, 86_400) if index % 3 == 0 else open_fleet(directory))
    assert all(isinstance(result, Fleet) for result in opened)


def test_of_racing_joins_with_one_state_directory_one_succeeds(tmp_path: Path, fleet: Fleet) -> None:
    joined = race(lambda _: join(fleet, tmp_path / "device", BUDGET).node_id)
    assert [result for result in joined if isinstance(result, str)] == [load(tmp_path / "device" / IDENTITY).node_id]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "fleet"]


def test_a_bundle_admits_one_of_racing_devices(tmp_path: Path, fleet: Fleet) -> None:
    bundle = tmp_path / "bundle"
    write_bundle(bundle, new_bundle(fleet, Seeds()))
    joined = race(lambda index: Join(tmp_path / f"device-{index}", lambda _: BUDGET).with_bundle(bundle).node_id)
    assert len([result for result in joined if isinstance(result, str)]) == 1
    assert len(list(tmp_path.glob("device-*"))) == 1


def test_of_racing_fleets_in_one_directory_one_is_created(tmp_path: Path) -> None:
    created = race(lambda index: create_fleet(tmp_path / "new", f"street-{index}").name)
    assert [result for result in created if isinstance(result, str)] == [open_fleet(tmp_path / "new").name]


def test_of_racing_new_files_one_is_written(tmp_path: Path) -> None:
    def write(index: int) -> bytes:
        content = bytes([index])
        write_new({tmp_path / "file": content})
        return content

    assert [result for result in race(write) if isinstance(result, bytes)] == [(tmp_path / "file").read_bytes()]


def test_a_lock_holds_while_files_are_replaced_under_it(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_bytes(b"0")

    def increase(_: int) -> None:
        with exclusive(tmp_path):
            replace(counter, str(int(counter.read_bytes()) + 1).encode())

    race(increase)
    assert counter.read_bytes() == b"12"


def test_another_list_with_the_same_version_is_refused(tmp_path: Path, fleet: Fleet) -> None:
    one, other = (node_id(DeviceKeys.generate().device.public_key()) for _ in range(2))
    first, second = (
        revoke(_directory(tmp_path / name), fleet, [device]) for name, device in (("a", one), ("b", other))
    )
    with pytest.raises(IdentityError, match="version"):
        store_revocation_list(tmp_path / "a", second, fleet.authority)
    assert load_revocation_list(tmp_path / "a", fleet.authority) == first
    assert not store_revocation_list(tmp_path / "a", first, fleet.authority)


def test_another_task_of_the_same_epoch_is_refused(tmp_path: Path, fleet: Fleet) -> None:
    first, second = (
        propose(_directory(tmp_path / name), fleet, {"task": {"name": f"task-{name}"}}, {}) for name in ("a", "b")
    )
    with pytest.raises(IdentityError, match="epoch"):
        store_task(tmp_path / "a", second, fleet.authority)
    assert load_task(tmp_path / "a", fleet.authority) == first
    assert not store_task(tmp_path / "a", first.sign(fleet.sign), fleet.authority)


def _directory(path: Path) -> Path:
    path.mkdir()
    return path
