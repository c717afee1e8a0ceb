"""Exit codes of the command: each with its cause, and never more than one message."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import ExitCode, InternalError, SottovoceError
from sottovoce_operator.fleet import Fleet

from tests.support.command import Ended, run_here
from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet, validity_ending_in

MEMORY = ("testbed", "--transport", "memory", "--data", "breast-cancer", "--agents", "2", "--cycles", "2")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("fleet") / "authority")


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Device:
    return new_device(fleet, tmp_path / "a").configure()


def assert_ended(ended: Ended, code: ExitCode, *words: str) -> None:
    """Check the exit code, empty standard output, and one line that contains all these words."""
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("sottovoce: ")
    assert ended.err.count("\n") == 1
    for word in words:
        assert word in ended.err


def run(device: Device) -> Ended:
    return run_here("agent", "run", "--config", device.config)


def test_0_the_version() -> None:
    completed = run_here("--version")
    assert (completed.code, completed.err) == (0, "")
    assert completed.out.startswith("sottovoce 0.")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("agent",),
        ("agent", "run"),
        pytest.param(("testbed",), marks=pytest.mark.papers),
        ("fleet",),
        ("ledger", "show"),
        ("config",),
    ],
)
def test_0_help(arguments: tuple[str, ...], flag: str) -> None:
    completed = run_here(*arguments, flag)
    assert (completed.code, completed.err) == (0, "")
    assert completed.out.lstrip().startswith("Usage: ")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("bogus",), "No such command 'bogus'"),
        (("agent", "run"), "Missing option '--config'"),
        (("agent", "status"), "--state DIRECTORY"),
        (
            ("agent", "stop", "--config", "a", "--state", "b"),
            "--state DIRECTORY",
        ),
        pytest.param(("testbed", "--agents", "many"), "'many' is not a valid int", marks=pytest.mark.papers),
        pytest.param(("testbed", "--learner", "sgd"), "unknown learner", marks=pytest.mark.papers),
        pytest.param(("testbed", "--transport", "pigeon"), "is not one of", marks=pytest.mark.papers),
        pytest.param(("testbed", "--bogus"), "No such option: --bogus", marks=pytest.mark.papers),
        (("fleet", "join", "--state", "x", "--epsilon", "nan"), "--epsilon must be positive"),
        (("fleet", "join", "--state", "x", "--epsilon", "inf"), "--epsilon must be positive"),
        (("fleet", "join", "--state", "x", "--delta", "1"), "between"),
        (("privacy", "calibrate", "--epsilon", "0", "--delta", "1e-5"), "epsilon"),
        (("privacy", "calibrate", "--epsilon", "1", "--delta", "1e-5", "--sensitivity", "-1"), "must be positive"),
    ],
)
def test_2_usage(arguments: tuple[str, ...], words: str) -> None:
    assert_ended(run_here(*arguments), ExitCode.USAGE, words)


@pytest.mark.parametrize("group", [(), ("agent",), ("fleet",), ("privacy",), ("config",), ("ledger",)])
def test_0_a_group_without_a_command_shows_its_help(group: tuple[str, ...]) -> None:
    completed = run_here(*group)
    assert (completed.code, completed.err) == (0, "")
    assert "Usage: " in completed.out
    assert "show" in completed.out or "run" in completed.out or "check" in completed.out or "compose" in completed.out


def test_3_configuration(device: Device) -> None:
    device.configure(learner={"perod": 1})
    assert_ended(run(device), ExitCode.CONFIGURATION, ": learner.perod: unknown key", "did you mean `period`?")


@pytest.mark.papers
def test_3_configuration_of_a_testbed() -> None:
    assert_ended(run_here(*MEMORY, "--set", "learner.clip=nan"), ExitCode.CONFIGURATION, "learner.clip")
    assert_ended(
        run_here(*MEMORY, "--set", "learner.steps=few"),
        ExitCode.CONFIGURATION,
        "learner.steps",
        "Expected `int | null`",
    )


def test_3_impossible_configuration(device: Device) -> None:
    device.configure([device.entry()])
    assert_ended(run(device), ExitCode.CONFIGURATION, "itself")
    device.configure(agent={"state": "x" * 100})
    (device.config.parent / ("x" * 100)).mkdir()
    assert_ended(run(device), ExitCode.CONFIGURATION, "local socket")


def test_4_data(device: Device) -> None:
    device.records.unlink()
    assert_ended(run(device), ExitCode.DATA, f"{device.records}", "does not exist")
    device.records.write_bytes(b"not an archive")
    assert_ended(run(device), ExitCode.DATA, f"{device.records}")


@pytest.mark.papers
def test_4_data_of_a_testbed() -> None:
    assert_ended(run_here(*MEMORY, "--data", "csv:/no/such.csv#label=y"), ExitCode.DATA, "/no/such.csv")
    assert_ended(run_here(*MEMORY, "--data", "mnist"), ExitCode.DATA, "Known kinds: digits")
    assert_ended(run_here(*MEMORY, "--set", "data.partition=heaps"), ExitCode.DATA, "Known partitions: iid")


def test_4_data_that_contradict_the_configuration(device: Device) -> None:
    device.configure(data={"features": 5})
    assert_ended(run(device), ExitCode.DATA, f"{device.records}")
    device.configure(data={"classes": 4})
    assert_ended(run(device), ExitCode.DATA, "classes")


def test_4_unreadable_state(device: Device) -> None:
    state = device.state / "state.db"
    state.write_bytes(b"\0" * 8192)
    assert_ended(run(device), ExitCode.DATA, f"{state}", "move state.db, state.db-wal and state.db-shm aside")


def test_5_ledger_missing(device: Device) -> None:
    device.ledger.unlink()
    words = ("the privacy ledger is missing", "nothing may be released")
    assert_ended(run(device), ExitCode.PRIVACY, f"{device.ledger}", *words)
    assert not device.ledger.exists(), "it is not replaced by another"
    assert_ended(run_here("ledger", "show", "--state", device.state), ExitCode.PRIVACY, "there is no ledger here")


def test_5_ledger_corrupt(device: Device) -> None:
    raw = bytearray(device.ledger.read_bytes())
    raw[4096:12288] = b"\xa5" * 8192
    device.ledger.write_bytes(raw)
    for completed in (run(device), run_here("ledger", "show", "--state", device.state)):
        assert_ended(completed, ExitCode.PRIVACY, f"{device.ledger}", "nothing", "replaces")
    device.ledger.write_bytes(b"")
    assert_ended(run(device), ExitCode.PRIVACY, f"{device.ledger}", "nothing")


def test_5_ledger_of_another_device(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    other = new_device(fleet, tmp_path / "b")
    other.ledger.rename(device.ledger)
    assert_ended(run(device), ExitCode.PRIVACY, f"{other.id}", f"{device.id}")


@pytest.mark.parametrize(
    "key, value, remedy",
    [
        ("epsilon", 3.0, "set the ledger's values under [privacy]"),
        ("delta", 1e-6, "--epsilon 2 --delta 1e-06 --unit record --neighbouring add-remove"),
        ("neighbouring", "replace-one", "--neighbouring replace-one"),
    ],
)
def test_5_ledger_created_for_another_budget(device: Device, key: str, value: Any, remedy: str) -> None:
    device.configure(privacy={key: value})
    assert_ended(run(device), ExitCode.PRIVACY, "ε = 2, δ = 1e-05", remedy)


def test_5_unproved(device: Device) -> None:
    device.configure(learner={"name": "push-sum"})
    assert_ended(run(device), ExitCode.PRIVACY, "adds no noise, so it cannot guarantee any ε")


@pytest.mark.papers
def test_5_an_unproved_testbed() -> None:
    words = "adds no noise, so it cannot guarantee any ε"
    assert_ended(run_here(*MEMORY, "--learner", "push-sum", "--epsilon", "2"), ExitCode.PRIVACY, words)
    refusal = ("--learner", "push-sum", "--epsilon", "2", "--set", "privacy.allow_unproved=no")
    assert_ended(run_here(*MEMORY, *refusal), ExitCode.PRIVACY, words)


@pytest.mark.papers
def test_5_unproved_can_still_be_run_and_guarantees_nothing() -> None:
    completed = run_here(
        *MEMORY, "--learner", "push-sum", "--epsilon", "2", "--set", "privacy.allow_unproved=true", "--json"
    )
    assert completed.code == 0
    assert '"epsilon": null' in completed.out
    assert '"status": "none"' in completed.out


@pytest.mark.papers
def test_5_a_budget_that_cannot_be_kept(device: Device) -> None:
    assert_ended(run_here(*MEMORY, "--epsilon", "1e-9"), ExitCode.PRIVACY, "grid")
    assert_ended(run_here(*MEMORY, "--set", "learner.steps=0"), ExitCode.PRIVACY, "release")
    assert_ended(run_here(*MEMORY, "--epsilon", "1000"), ExitCode.PRIVACY, "budget")


def test_6_identity(fleet: Fleet, device: Device, tmp_path: Path) -> None:
    nowhere = device.config.with_name("nowhere.toml")
    nowhere.write_text(device.config.read_text().replace('state = "a"', 'state = "nowhere"'))
    words = "the state directory does not exist; create it with `sottovoce fleet join`"
    assert_ended(run_here("agent", "run", "--config", nowhere), ExitCode.IDENTITY, words)
    expired = new_device(fleet, tmp_path / "expired", validity=validity_ending_in(-60)).configure()
    assert_ended(run(expired), ExitCode.IDENTITY, "expired on", "fleet renew")
    assert_ended(run_here("fleet", "show", "--state", expired.state), ExitCode.IDENTITY, "expired on")
    assert_ended(
        run_here("fleet", "init", "--name", "Ünnamed", "--fleet", tmp_path / "f"), ExitCode.IDENTITY, "lowercase"
    )
    assert_ended(
        run_here("fleet", "join", "--state", tmp_path / "j", "--fleet", tmp_path / "f"), ExitCode.IDENTITY, "ca.key"
    )


def test_6_a_device_joins_once(tmp_path: Path) -> None:
    fleet, state = tmp_path / "fleet", tmp_path / "a"
    assert run_here("fleet", "init", "--name", "once", "--fleet", fleet).code == 0
    assert_ended(
        run_here("fleet", "init", "--name", "once", "--fleet", fleet), ExitCode.IDENTITY, "will not be overwritten"
    )
    first = run_here("fleet", "join", "--state", state, "--fleet", fleet)
    assert (first.code, first.err) == (0, "")
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    repeated = run_here("fleet", "join", "--state", state, "--fleet", fleet)
    assert_ended(repeated, ExitCode.IDENTITY, "already", "once")
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["status", "stop"])
def test_7_network(device: Device, command: str) -> None:
    words = "no agent answers there; start it with `sottovoce agent run --config FILE`"
    assert_ended(run_here("agent", command, "--config", device.config), ExitCode.NETWORK, words)
    assert_ended(run_here("agent", command, "--state", device.state), ExitCode.NETWORK, words)
    assert_ended(run_here("agent", command, "--state", "/" + "x" * 300), ExitCode.NETWORK, words)


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), OSError("oops"), AssertionError("oops")])
def test_8_a_defect_shows_its_location(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def raise_error(path: Path) -> None:
        raise error

    monkeypatch.setattr("sottovoce.config.load", raise_error)
    completed = run_here("config", "check", "x")
    assert (completed.code, completed.out) == (ExitCode.INTERNAL, "")
    assert completed.err.startswith("Traceback (most recent call last):\n")
    assert f"{type(error).__name__}: oops\n" in completed.err
    assert completed.err.endswith("sottovoce: internal error: this is a bug; please report the lines above\n")


@pytest.mark.process
def test_4_standard_output_on_a_full_disk() -> None:
    with Path("/dev/full").open("w") as full:
        completed = subprocess.run(
            [sys.executable, "-m", "sottovoce", "config", "schema"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert completed.returncode == ExitCode.DATA
    assert (
        completed.stderr == "sottovoce: No space left on device: free up space where this command writes its output\n"
    )


@pytest.mark.process
def test_130_interrupted_while_the_command_is_loaded() -> None:
    code = (
        "import sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from sottovoce.cli.main import main\n"
        "main()\n"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (ExitCode.INTERRUPTED, "sottovoce: interrupted\n")


def test_130_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce.config.load", raise_interrupt)
    assert_ended(run_here("config", "check", "x"), ExitCode.INTERRUPTED, "interrupted")


def test_every_error_in_the_tree_exits_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in _kinds(SottovoceError):
        error = kind("reason", "what to do") if kind.__init__ is not Exception.__init__ else kind("what to do")

        def raise_error(path: Path, error: SottovoceError = error) -> None:
            raise error

        monkeypatch.setattr("sottovoce.config.load", raise_error)
        assert_ended(run_here("config", "check", "x"), kind.exit_code, "what to do")


def _kinds(root: type[SottovoceError]) -> list[type[SottovoceError]]:
    own = [kind for kind in root.__subclasses__() if kind.__module__ == "sottovoce.errors"]
    return [root, *(each for kind in own for each in _kinds(kind))]


def test_the_tree_covers_every_exit_code() -> None:
    without = {ExitCode.DONE, ExitCode.INTERRUPTED}
    assert {kind.exit_code for kind in _kinds(SottovoceError)} == set(ExitCode) - without
    assert InternalError("x").exit_code is ExitCode.INTERNAL
    assert sys.exc_info() == (None, None, None)
