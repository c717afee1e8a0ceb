"""Guarantee of a fleet's devices: fixed with the fleet, and no ledger, invitation or advice guarantees less."""

import json
from pathlib import Path

import pytest
from sottovoce.fleet.invitation import read_bundle
from sottovoce.privacy.ledger.binding import check_budget
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce_operator.fleet.promise import PURPOSES, read_promise

from tests.support.command import run_here
from tests.support.devices import free_port

WINDOW = Budget(2.0, 1e-5, "window", "add-remove")
HOME = Budget(1.0, 1e-5, "device", "add-remove")


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    directory = tmp_path / "authority"
    completed = run_here("fleet", "init", "--name", "street", "--fleet", directory, "--for", "meters")
    assert completed.code == 0
    assert "every device in this fleet promises ε = 1, δ = 1e-05, device level, add-remove" in completed.out
    return directory


def budget(state: Path) -> Budget:
    ledger = Ledger.read(state / "ledger.db")
    ledger.close()
    return ledger.own_budget


def bundle(authority: Path, directory: Path) -> Path:
    file = directory / "attic.bundle"
    assert run_here("fleet", "invite", "--fleet", authority, "--out", file).code == 0
    return file


def test_each_way_to_join_creates_the_ledger_that_the_fleet_guarantees(authority: Path, tmp_path: Path) -> None:
    assert run_here("fleet", "join", "--fleet", authority, "--state", tmp_path / "one").code == 0
    assert run_here("fleet", "join", "--bundle", bundle(authority, tmp_path), "--state", tmp_path / "two").code == 0
    assert budget(tmp_path / "one") == budget(tmp_path / "two") == HOME
    completed = run_here("fleet", "show", "--fleet", authority, "--json")
    assert json.loads(completed.out)["promises"] == HOME.description


def test_a_manifest_s_bundles_contain_the_guarantee(authority: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundles"
    invited = run_here(
        "fleet", "invite", "--fleet", authority, "--manifest", tmp_path / "m.csv", "--count", 2, "--out", out
    )
    assert invited.code == 0
    assert [read_bundle(file).seeds.promised for file in sorted(out.iterdir())] == [PURPOSES["meters"]] * 2


@pytest.mark.parametrize(
    "options",
    [
        ("--unit", "record"),
        ("--unit", "window"),
        ("--epsilon", "3"),
        ("--delta", "1e-4"),
        ("--neighbouring", "replace-one"),
    ],
)
def test_a_weaker_guarantee_is_refused_before_the_bundle_is_used(
    authority: Path, tmp_path: Path, options: tuple[str, str]
) -> None:
    file = bundle(authority, tmp_path)
    for way in (("--bundle", file), ("--fleet", authority)):
        refused = run_here("fleet", "join", *way, "--state", tmp_path / "attic", *options)
        assert refused.code == 6
        assert "this fleet's devices promise ε = 1, δ = 1e-05, device level, add-remove" in refused.err
        assert not (tmp_path / "attic").exists()
    assert run_here("fleet", "join", "--bundle", file, "--state", tmp_path / "attic", "--epsilon", "0.5").code == 0
    assert budget(tmp_path / "attic").epsilon == 0.5, "an owner may guarantee more"


def test_a_fleet_without_a_guarantee_leaves_it_to_its_devices(tmp_path: Path) -> None:
    authority = tmp_path / "authority"
    assert run_here("fleet", "init", "--name", "street", "--fleet", authority).code == 0
    file = bundle(authority, tmp_path)
    assert '"promised"' not in file.read_text(), "older versions can read it"
    assert run_here("fleet", "join", "--bundle", file, "--state", tmp_path / "one", "--unit", "device").code == 0
    assert budget(tmp_path / "one").unit == "device"


def test_an_invalid_guarantee_or_one_without_a_purpose_creates_no_fleet(tmp_path: Path) -> None:
    for options, words in (
        (("--unit", "window"), "requires --for, for example --for meters"),
        (("--for", "meters", "--epsilon", "0"), "--epsilon must be positive"),
    ):
        refused = run_here("fleet", "init", "--name", "street", "--fleet", tmp_path / "authority", *options)
        assert (refused.code, words in refused.err) == (2, True), refused.err
        assert not (tmp_path / "authority").exists()


def test_a_corrupt_guarantee_is_named(authority: Path, tmp_path: Path) -> None:
    (authority / "promised.json").write_text('{"epsilon": 2}')
    refused = run_here("fleet", "join", "--fleet", authority, "--state", tmp_path / "one")
    assert (refused.code, "promised.json" in refused.err) == (6, True), refused.err
    assert read_promise(tmp_path) is None


@pytest.mark.parametrize(
    "found, wanted, advice",
    [
        (Budget(2.0, 1e-5, "record", "add-remove"), WINDOW, "--epsilon 2 --delta 1e-05 --unit window"),
        (Budget(3.0, 1e-5, "window", "add-remove"), WINDOW, "the ledger's budget would promise less"),
        (Budget(2.0, 1e-4, "window", "add-remove"), WINDOW, "the ledger's budget would promise less"),
        (Budget(None, 1e-5, "window", "add-remove"), WINDOW, "the ledger's budget would promise less"),
        (Budget(2.0, 1e-5, "window", "replace-one"), WINDOW, "--neighbouring add-remove"),
        (Budget(1.0, 1e-5, "window", "add-remove"), WINDOW, "[privacy]"),
        (Budget(2.0, 1e-5, "device", "add-remove"), WINDOW, "[privacy]"),
        (WINDOW, Budget(None, 1e-5, "window", "add-remove"), "[privacy]"),
    ],
)
def test_no_advice_weakens_a_guarantee(found: Budget, wanted: Budget, advice: str) -> None:
    with pytest.raises(Exception, match="created") as exc_info:
        check_budget(Path("ledger.db"), found, wanted)
    assert advice in str(exc_info.value)


def test_a_configuration_is_checked_against_the_ledger(authority: Path, tmp_path: Path) -> None:
    state, file = tmp_path / "one", tmp_path / "one.toml"
    text = (
        '[agent]\nstate = "one"\n[data]\nsource = "feed:mqtt://127.0.0.1:1883"\nfeatures = 10\nclasses = 1\n'
        'transform = "none"\nexpected_records = 44\nwindows = [2026-11-25, 2036-11-24]\n'
        f'[learner]\nmodel = "ridge"\n[transport]\nlisten = "127.0.0.1:{free_port()}"\n[privacy]\nepsilon = 1.0\n'
    )
    file.write_text(text)
    assert run_here("config", "check", file).code == 0, "there is no device to examine"
    assert run_here("fleet", "join", "--fleet", authority, "--state", state).code == 0
    assert run_here("config", "check", file).code == 0
    file.write_text(text.replace("epsilon = 1.0", "epsilon = 0.5"))
    refused = run_here("config", "check", file)
    assert (refused.code, "the ledger's budget would promise less" in refused.err) == (5, True), refused.err
    file.write_text(text.replace("epsilon = 1.0", 'unit = "window"\nepsilon = 1.0'))
    refused = run_here("config", "check", file)
    assert (refused.code, "window level" in refused.err) == (5, True), refused.err


def test_a_feed_s_default_unit_is_not_changed_silently_on_a_ledger_for_days(tmp_path: Path) -> None:
    assert run_here("fleet", "init", "--name", "street", "--fleet", tmp_path / "fleet").code == 0
    joined = run_here("fleet", "join", "--fleet", tmp_path / "fleet", "--state", tmp_path / "one", "--unit", "window")
    assert joined.code == 0
    file = tmp_path / "one.toml"
    listen = f'transport.listen = "127.0.0.1:{free_port()}"\n'
    file.write_text(f'agent.state = "one"\ndata.source = "feed:mqtt://127.0.0.1:1883"\n{listen}')
    refused = run_here("config", "check", file)
    assert (refused.code, "window level" in refused.err, "device level" in refused.err) == (5, True, True), refused.err
    file.write_text(file.read_text() + 'privacy.unit = "window"\n')
    assert run_here("config", "check", file).code == 0
