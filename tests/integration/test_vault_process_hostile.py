"""Attacker in full control of the agent process: it reads no record and cannot exceed the budget.

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
import sottovoce_papers
from sottovoce.data import apply
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.vault import Ledger
from sottovoce_operator.fleet import Fleet

from tests.support.devices import FEATURES, Device
from tests.support.vaults import VaultProcess, separate_device, vault_directory, vault_section

pytestmark = pytest.mark.process

VAULT_USER, AGENT_USER = 61_001, 61_002
STEPS = 20
ROOT = os.getuid() == 0
HOSTILE = Path(__file__).parents[1] / "support" / "hostile_agent.py"
PACKAGES = {
    str(Path(str(package.__file__)).parents[1]): None
    for package in (np, sottovoce, sottovoce_bootstrap, sottovoce_papers)
}
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
    """Return subprocess.Popen arguments to run as this user without our groups; without root, as the current user."""
    where = {"env": {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(PACKAGES)}, "cwd": "/"}
    return {**where, "user": user, "group": user, "extra_groups": []} if ROOT else where


@pytest.fixture(scope="module")
def python() -> str:
    """Return an interpreter that both users may run; the one running the tests may be in root's home."""
    tried = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")
    for interpreter in tried:
        command = [interpreter, "-c", "import msgspec, numpy, sottovoce"]
        with contextlib.suppress(OSError):
            if subprocess.run(command, capture_output=True, check=False, **as_user(VAULT_USER)).returncode == 0:
                return interpreter
    pytest.skip(f"user {VAULT_USER} can run none of {', '.join(tried)} with the installed packages")


def owned(user: int, *paths: Path) -> None:
    for path in paths:
        for item in (path, *path.rglob("*")):
            os.chown(item, user, user)


@pytest.fixture
def scene(fleet: Fleet, python: str) -> Iterator[Scene]:
    with run_scene(fleet, python, {"learner": {"steps": STEPS}}) as scene:
        yield scene


@contextlib.contextmanager
def run_scene(fleet: Fleet, python: str, tables: dict[str, Any], neighbouring: str = "add-remove") -> Iterator[Scene]:
    """A running vault, in a directory that every user may enter, unlike pytest's."""
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


def attack_vault(scene: Scene) -> dict[str, Any]:
    """A hostile agent's findings, after checks that apply to every attack on any vault."""
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
    result: dict[str, Any] = json.loads(ran.stdout)

    assert result["user"] == AGENT_USER
    assert result["done"] == [], "the attack had none of the vault user's rights"
    codes = [code for code, _ in result["vaults"]]
    assert codes == [5, 4], result["vaults"]  # it can read neither the ledger nor, for its own ledger, the records

    flood = result["floods"]
    assert flood["asked"] == 3000
    assert flood["released"] == flood["values"] == flood["pairs"], "each query has one answer"
    assert result["frames"]["replies"] > 300
    assert result["frames"]["answers"] == 0
    assert result["spent"]["charges"] == result["spent"]["releases"] == flood["released"]

    assert_no_record_in(heard.read_bytes(), source)
    assert scene.vault.process.poll() is None, "the vault has survived"
    assert "Traceback" not in scene.vault.log()
    assert scene.vault.end() == 0
    assert hashlib.sha256(source.read_bytes()).hexdigest() == scene.records
    return result


@contextlib.contextmanager
def open_ledger(scene: Scene) -> Iterator[Ledger]:
    """Open the ledger, which checks all of it."""
    ledger = Ledger.read(vault_directory(scene.device.state) / "ledger.db")
    assert ledger.owner == scene.device.id
    try:
        yield ledger
    finally:
        ledger.close()


@needs_root
def test_a_hostile_agent_reads_no_record_and_stays_within_the_budget(scene: Scene) -> None:
    result = attack_vault(scene)
    assert result["floods"]["released"] == STEPS, "as many as the calibrated schedule has"
    assert result["floods"]["reasons"] == ["budget", "query"]
    with open_ledger(scene) as ledger:
        assert 1.9 < ledger.spending().epsilon <= 2.0


@needs_root
def test_a_published_record_does_not_pay_twice_either(fleet: Fleet, python: str) -> None:
    """The agent requests forty of sixty records under five names each, and further records that do not exist."""
    tables = {"learner": {"name": "golf"}, "privacy": {"neighbouring": "replace-one"}}
    with run_scene(fleet, python, tables, "replace-one") as scene:
        result = attack_vault(scene)
        assert result["floods"]["reasons"] == ["budget", "query", "record"]
        with open_ledger(scene) as ledger:
            records = [str(parse_event(terms).units) for _, terms, _ in ledger.charges()]
            assert 10 < len(records) == len(set(records)) <= 40
            assert ledger.spending().epsilon == 2.0


def assert_no_record_in(heard: bytes, source: Path) -> None:
    """Check that the data contain neither a record nor its intermediate values, in any byte representation."""
    assert len(heard) > 100_000
    with np.load(source) as arrays:
        features = arrays["X"]
    observed = apply("centred-unit", features, (np.zeros(FEATURES), np.ones(FEATURES)))
    for numbers in (features, observed):
        for number in np.unique(numbers[(numbers != 0) & (np.abs(numbers) != 1)]):
            for raw in (
                number.tobytes(),
                np.float32(number).tobytes(),
                number.byteswap().tobytes(),
                str(number).encode(),
            ):
                assert raw not in heard


@needs_root
def test_callers_other_than_the_agent_are_turned_away(scene: Scene) -> None:
    """Even root is refused, although root needs no socket; another device's agent on the same machine certainly is."""
    code = (
        "import sys, socket\n"
        "from sottovoce.privacy.rpc import protocol\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "connection.connect(sys.argv[1])\n"
        "print(protocol.decode_reply(protocol.receive(connection, 2**20, 20)))\n"
    )
    location = scene.device.state.parents[1] / "run" / "vault.sock"
    for user in (0, AGENT_USER + 1, VAULT_USER):
        ran = subprocess.run(
            [scene.python, "-c", code, str(location)], capture_output=True, text=True, check=True, **as_user(user)
        )
        assert re.search(
            rf"Failed\(kind='user', explanation='user {user} is not authorised to query this vault", ran.stdout
        )
    assert "user-refused" in scene.vault.log()


def test_even_its_own_user_cannot_read_its_memory(scene: Scene) -> None:
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
def test_the_vault_s_inputs_must_be_out_of_the_agent_s_reach(scene: Scene) -> None:
    """The configuration's writer determines data, clip and noise; another ledger is another budget."""
    config, ledger = scene.device.config, vault_directory(scene.device.state) / "ledger.db"
    scene.vault.end()
    for path, owner, mode in (
        (config, AGENT_USER, 0o644),
        (config, 0, 0o666),
        (config, 0, 0o664),
        (config.parent, AGENT_USER, 0o755),
        (config.parent, 0, 0o777),
        (ledger, AGENT_USER, 0o666),
        (ledger.parent, AGENT_USER, 0o777),
    ):
        before = path.stat()
        os.chown(path, owner, owner)
        path.chmod(mode)
        with VaultProcess(scene.device, scene.python, **as_user(VAULT_USER)) as refused:
            assert refused.process.wait(60) == 3, path
        assert f"{path}: the agent runs as user {AGENT_USER}, who could change this path" in refused.log()
        os.chown(path, before.st_uid, before.st_gid)
        path.chmod(before.st_mode & 0o777)
    with VaultProcess(scene.device, scene.python, **as_user(VAULT_USER)) as vault:
        vault.ready()
        assert "same-user" not in vault.log()
