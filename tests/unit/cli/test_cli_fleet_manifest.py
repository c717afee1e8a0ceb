"""`fleet invite --manifest`: one command invites many devices, which find one another."""

import csv
import json
from pathlib import Path

import pytest
from sottovoce.fleet.invitation import MAX_BUNDLE_BYTES

from tests.support.command import run_here
from tests.support.fleets import new_fleet


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("authority") / "fleet"
    new_fleet(directory)
    return directory


def invite_all(authority: Path, directory: Path, *more: object) -> tuple[int, str]:
    manifest, out = directory / "devices.csv", directory / "bundles"
    completed = run_here("fleet", "invite", "--fleet", authority, "--manifest", manifest, "--out", out, *more)
    return completed.code, completed.err


def rows(directory: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((directory / "devices.csv").read_text().splitlines()))


def test_one_command_invites_thirty_devices_and_each_joins_with_one_command(authority: Path, tmp_path: Path) -> None:
    assert invite_all(authority, tmp_path, "--count", 30) == (0, "")
    listed = rows(tmp_path)
    assert [row["name"] for row in listed] == [f"device-{i:02}" for i in range(1, 31)]
    assert len({row["id"] for row in listed}) == 30
    for row in (listed[0], listed[-1]):
        state = tmp_path / row["name"]
        joined = run_here("fleet", "join", "--bundle", row["bundle"], "--state", state)
        assert (joined.code, joined.out.strip().splitlines()[-1]) == (0, row["id"])
    code, output = invite_all(authority, tmp_path)
    assert (code, "invited" in output) == (2, True), output


def test_devices_in_a_list_know_those_with_an_address(authority: Path, tmp_path: Path) -> None:
    names = [f"d{i}" for i in range(12)]
    lines = ["address,name", *(f"192.0.2.{i}:7400,{name}" for i, name in enumerate(names)), ",quiet"]
    (tmp_path / "devices.csv").write_text("\n".join(lines) + "\n")
    seed = "7f4mmi5n4fg3xaze5gabanky7f2u5irt@192.0.2.99:7400"
    assert invite_all(authority, tmp_path, "--seed", seed)[0] == 0
    by_name = {row["name"]: row for row in rows(tmp_path)}
    for name, index in (("d0", 0), ("d11", 11), ("quiet", 12)):
        bundle = Path(by_name[name]["bundle"])
        assert bundle.stat().st_mode & 0o777 == 0o600
        assert bundle.stat().st_size < MAX_BUNDLE_BYTES
        reported = [contact["id"] for contact in json.loads(bundle.read_text())["seeds"]["contacts"]]
        around = [one for i in range(1, 13) if (one := [*names, "quiet"][(index + i) % 13]) != "quiet"]
        assert reported == [seed.partition("@")[0], *(by_name[one]["id"] for one in around[:8])]


@pytest.mark.parametrize(
    "written, more, words",
    [
        (None, (), "create"),
        (None, ("--count", 0), "1 to 10000 devices"),
        ("name\n", (), "0 devices"),
        ("device\na\n", (), "header"),
        ("name\na\nb\n", ("--count", 3), "2 devices"),
        ("name\na\na\n", (), "line 3: 'a'"),
        ("name\n../a\n", (), "line 2: '../a'"),
        ("name\na,b\n", (), "line 2: 'a'"),
        ("name,address\na,nowhere\n", (), "line 2: "),
        ('name\n"a\n', (), "is not a device list"),
        ("name\ntaken\n", (), "taken.bundle"),
    ],
)
def test_an_invalid_list_writes_nothing(
    authority: Path, tmp_path: Path, written: str | None, more: tuple[object, ...], words: str
) -> None:
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "taken.bundle").write_text("someone's")
    if written is not None:
        (tmp_path / "devices.csv").write_text(written)
    code, output = invite_all(authority, tmp_path, *more)
    assert (code, words in output) == (2, True), output
    assert [file.name for file in (tmp_path / "bundles").iterdir()] == ["taken.bundle"]
    assert (tmp_path / "devices.csv").exists() == (written is not None)
    if written is not None:
        assert (tmp_path / "devices.csv").read_text() == written


@pytest.mark.parametrize(
    "arguments, words", [(("--count", 3, "--out", "x"), "--manifest"), (("--manifest", "m", "--serve", "h:1"), "--out")]
)
def test_dependent_options_require_each_other(authority: Path, arguments: tuple[object, ...], words: str) -> None:
    completed = run_here("fleet", "invite", "--fleet", authority, *arguments)
    assert (completed.code, words in completed.err) == (2, True), completed.err
