"""Test in full control of the agent process: it reads no record and cannot exceed the budget.

The vault runs as one user, and an agent process that was taken over as another, which takes root to arrange. Without
root, the test shows only that not even the vault's own user can read its memory.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sottovoce
import sottovoce_bootstrap
from sottovoce.accounting.stored import event_of
from sottovoce.data import apply
from sottovoce.identity import Fleet
from sottovoce.vault import Ledger

from tests.support.devices import FEATURES, Device
from tests.support.vaults import VaultProcess, separate_device, vault_directory, vault_section

VAULT_USER, AGENT_USER = 61_001, 61_002
STEPS = 20
ROOT = os.getuid() == 0
HOSTILE = Path(__file__).parents[1] / "support" / "hostile_agent.py"
PACKAGES = {str(Path(str(package.__file__)).parents[1]): None for package in (np, sottovoce, sottovoce_bootstrap)}
needs_root = pytest.mark.skipif(not ROOT, reason="two users: takes root")


@dataclass(frozen=True, slots=True)
class Scene:
    """A device whose vault has a user of its own.

    Attributes:
        device: the device.
        own: a directory of the agent's user.
        vault: the vault's process.
        records: SHA-256 of the records' file.
        python: the interpreter for other users.
    """

    device: Device
    own: Path
    vault: VaultProcess
    records: str
    python: str


def as_user(user: int) -> dict[str, Any]:
    """For subprocess.Popen: run as this user and in no group of ours; without root, as we are."""
    where = {"env": {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(PACKAGES)}, "cwd": "/"}
    return {**where, "user": user, "group": user, "extra_groups": []} if ROOT else where


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that the two users may run; the one that runs the tests may be in root's own home."""
    tried = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")
    for interpreter in tried:
        command = [interpreter, "-c", "import msgspec, numpy, sottovoce"]
        with contextlib.suppress(OSError):
            if subprocess.run(command, capture_output=True, check=False, **as_user(VAULT_USER)).returncode == 0:
                return interpreter
    pytest.skip(f"user {VAULT_USER} can run none of {', '.join(tried)} with the installed packages")


def owned(user: int, *paths: Path) -> None:
    for path in paths:
        for one in (path, *path.rglob("*")):
            os.chown(one, user, user)


@pytest.fixture
def scene(fleet: Fleet, python: str) -> Iterator[Scene]:
    with staged(fleet, python, {"learner": {"steps": STEPS}}) as scene:
        yield scene


@contextlib.contextmanager
def staged(fleet: Fleet, python: str, tables: dict[str, Any], neighbouring: str = "add-remove") -> Iterator[Scene]:
    """A vault at work, in a directory that every user may enter, unlike those of pytest."""
    top = Path(tempfile.mkdtemp(prefix="sottovoce-", dir="/tmp"))
    try:
        top.chmod(0o755)
        held, run, own = top / "held", top / "run", top / "own"
        for directory in (held, run, own):
            directory.mkdir(mode=0o755)
        device = separate_device(fleet, held / "a", seed=5, neighbouring=neighbouring)
        private = held / "private"
        private.mkdir(mode=0o700)
        shutil.move(device.records, private / "records.npz")
        source = private / "records.npz"
        section = vault_section(device.state, socket=str(run / "vault.sock"))
        device.configure(
            data={"source": f"npz:{source}"},
            **tables,
            vault={**section, **({"agent_user": str(AGENT_USER)} if ROOT else {})},
        )
        device.config.chmod(0o644)
        if ROOT:
            owned(VAULT_USER, private, vault_directory(device.state), run)
            owned(AGENT_USER, device.state, own)
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        with VaultProcess(device, python, **as_user(VAULT_USER)) as vault:
            yield Scene(device, own, vault.ready(), digest, python)
    finally:
        shutil.rmtree(top)


def attacked(scene: Scene) -> dict[str, Any]:
    """What a hostile agent found, after what every attack on any vault must come to."""
    source, heard = scene.device.state.parent / "private" / "records.npz", scene.own / "heard"
    arguments = [scene.device.config, scene.device.id, scene.vault.process.pid, source, scene.own, heard]
    ran = subprocess.run(
        [scene.python, str(HOSTILE), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        **as_user(AGENT_USER),
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)

    assert found["user"] == AGENT_USER
    assert found["done"] == [], "nothing that only the vault's user may do"
    codes = [code for code, _ in found["vaults"]]
    assert codes == [5, 4], found["vaults"]  # it can read neither the ledger nor, for a ledger of its own, the records

    flood = found["floods"]
    assert flood["asked"] == 3000
    assert flood["released"] == flood["values"] == flood["pairs"], "one answer for each query, ever"
    assert found["frames"]["replies"] > 300
    assert found["frames"]["answers"] == 0
    assert found["spent"]["charges"] == found["spent"]["releases"] == flood["released"]

    assert_no_record_in(heard.read_bytes(), source)
    assert scene.vault.process.poll() is None, "the vault has outlived it all"
    assert "Traceback" not in scene.vault.log()
    assert scene.vault.end() == 0
    assert hashlib.sha256(source.read_bytes()).hexdigest() == scene.records
    return found


@contextlib.contextmanager
def books(scene: Scene) -> Iterator[Ledger]:
    """The ledger, which is whole: opening it checks all of it."""
    ledger = Ledger.read(vault_directory(scene.device.state) / "ledger.db")
    assert ledger.owner == scene.device.id
    try:
        yield ledger
    finally:
        ledger.close()


@needs_root
def test_a_hostile_agent_reads_no_record_and_stays_within_the_budget(scene: Scene) -> None:
    found = attacked(scene)
    assert found["floods"]["released"] == STEPS, "as many as the schedule was calibrated for"
    assert found["floods"]["reasons"] == ["budget", "query"]
    with books(scene) as ledger:
        assert 1.9 < ledger.spending().epsilon <= 2.0


@needs_root
def test_nor_does_a_record_that_is_published_pay_twice(fleet: Fleet, python: str) -> None:
    """The agent asks for the first forty records of sixty, under five names each, and for others that there are not."""
    tables = {"learner": {"name": "golf"}, "privacy": {"neighbouring": "replace-one"}}
    with staged(fleet, python, tables, "replace-one") as scene:
        found = attacked(scene)
        assert found["floods"]["reasons"] == ["budget", "query", "record"]
        with books(scene) as ledger:
            records = [str(event_of(terms).units) for _, terms, _ in ledger.charges()]
            assert 10 < len(records) == len(set(records)) <= 40
            assert ledger.spending().epsilon == 2.0


def assert_no_record_in(heard: bytes, source: Path) -> None:
    """Neither a record nor what becomes of it on its way to a gradient, as bytes of whatever kind."""
    assert len(heard) > 100_000
    with np.load(source) as arrays:
        features = arrays["X"]
    seen = apply("centred-unit", features, (np.zeros(FEATURES), np.ones(FEATURES)))
    for numbers in (features, seen):
        for number in np.unique(numbers[(numbers != 0) & (np.abs(numbers) != 1)]):
            for raw in (
                number.tobytes(),
                np.float32(number).tobytes(),
                number.byteswap().tobytes(),
                str(number).encode(),
            ):
                assert raw not in heard


@needs_root
def test_whoever_is_not_the_agent_is_turned_away(scene: Scene) -> None:
    """Root too, though root needs no door; another device's agent on the same machine for certain."""
    code = (
        "import sys, socket\n"
        "from sottovoce.vault import protocol\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "connection.connect(sys.argv[1])\n"
        "print(protocol.decode_reply(protocol.receive(connection, 2**20, 20)))\n"
    )
    place = scene.device.state.parents[1] / "run" / "vault.sock"
    for user in (0, AGENT_USER + 1, VAULT_USER):
        ran = subprocess.run(
            [scene.python, "-c", code, str(place)], capture_output=True, text=True, check=True, **as_user(user)
        )
        assert re.search(
            rf"Failed\(kind='user', explanation='user {user} is not authorised to query this vault", ran.stdout
        )
    assert "user-refused" in scene.vault.log()


def test_not_even_its_own_user_sees_into_its_memory(scene: Scene) -> None:
    code = (
        "import sys, ctypes, os\n"
        "pid = int(sys.argv[1])\n"
        "for name in ('mem', 'environ', 'maps'):\n"
        "    try:\n"
        "        open(f'/proc/{pid}/{name}', 'rb').read(1)\n"
        "        print('read', name)\n"
        "    except PermissionError:\n"
        "        pass\n"
        "if ctypes.CDLL(None, use_errno=True).ptrace(16, pid, 0, 0) == 0:\n"
        "    print('attached')\n"
    )
    ran = subprocess.run(
        [scene.python, "-c", code, str(scene.vault.process.pid)],
        capture_output=True,
        text=True,
        check=True,
        **as_user(VAULT_USER),
    )
    assert (ran.stdout, ran.stderr) == ("", "")


@needs_root
def test_what_the_vault_goes_by_must_be_out_of_the_agent_s_reach(scene: Scene) -> None:
    """Anyone who writes the configuration decides about data, clip and noise; another ledger is another budget."""
    config, ledger = scene.device.config, vault_directory(scene.device.state) / "ledger.db"
    scene.vault.end()
    for place, owner, mode in (
        (config, AGENT_USER, 0o644),
        (config, 0, 0o666),
        (config, 0, 0o664),
        (config.parent, AGENT_USER, 0o755),
        (config.parent, 0, 0o777),
        (ledger, AGENT_USER, 0o666),
        (ledger.parent, AGENT_USER, 0o777),
    ):
        before = place.stat()
        os.chown(place, owner, owner)
        place.chmod(mode)
        with VaultProcess(scene.device, scene.python, **as_user(VAULT_USER)) as refused:
            assert refused.process.wait(60) == 3, place
        assert f"{place} could be changed by user {AGENT_USER}, from whom the vault must be protected" in refused.log()
        os.chown(place, before.st_uid, before.st_gid)
        place.chmod(before.st_mode & 0o777)
    with VaultProcess(scene.device, scene.python, **as_user(VAULT_USER)) as vault:
        vault.ready()
        assert "same-user" not in vault.log()
