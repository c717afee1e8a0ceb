"""`sottovoce results` on a file and on a device, and what it writes."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from pyarrow import parquet
from sottovoce.cli.command import command_line
from sottovoce.errors import DataError, NetworkError, UsageError
from sottovoce.fleet import Identity
from sottovoce.kernels.profile import Profile
from sottovoce_operator.estimate import Estimate
from sottovoce_operator.results import source
from sottovoce_operator.results.estimates import estimates
from sottovoce_operator.results.page import result_page

from tests.support.fleets import new_fleet
from tests.support.opened_sums import SETTINGS, new_members, opened_sum, result_file

HALF_HOURS = 48
PRIOR = [round(0.2 + 0.1 * math.sin(i / 8), 3) for i in range(HALF_HOURS)]
PROFILE = {
    **SETTINGS,
    "data.features": HALF_HOURS,
    "learner.prior": PRIOR,
    "learner.harmonics": 2,
    "learner.shape_clip": 0.7,
}


def encode(settings: Any) -> str:
    return msgspec.json.encode(settings, order="sorted").decode()


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory = tmp_path_factory.mktemp("street")
    return new_members(new_fleet(directory / "authority", "street"), directory, 5)


@pytest.fixture
def make_file(members: list[Identity], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a result file, by default of a day's profile with harmonics and a prior."""

    def make(settings: Any = PROFILE, signers: int = 5, **changes: Any) -> Path:
        fields = {"total": (900, -200, 300, 50, -80), **changes}
        document = result_file(members, members[:signers], opened_sum(members, task=encode(settings), **fields))
        file = tmp_path / "street.result"
        file.write_bytes(document.encoding)
        return file

    return make


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    command_line("results")(["results", *map(str, words)], standalone_mode=False, prog_name="sottovoce")
    return capsys.readouterr().out


def test_the_values_and_their_errors_are_those_of_the_profile(members: list[Identity]) -> None:
    opened = opened_sum(members, task=encode(PROFILE), total=(900, -200, 300, 50, -80))
    (mean,) = estimates(opened)
    profile = Profile(HALF_HOURS, 2.0, tuple(PRIOR), 2, 0.7)
    assert mean.values.tolist() == profile.vector(np.array(opened.total) / 2**10 / 5).tolist()
    # the noise of a sum of five members, in each coefficient of their mean
    σ = 300 / 2**10 * math.sqrt(5) / 5
    assert mean.error == pytest.approx(σ * profile.error)
    noise = np.random.default_rng(0).normal(0, σ, (4000, 5))
    drawn = np.array([profile.vector(each) for each in noise]).std(axis=0)
    assert np.allclose(drawn, mean.errors, rtol=0.06)
    assert mean.labels[:3] == ("00:00", "00:30", "01:00")
    assert mean.days == 365


def test_json_and_csv_contain_every_value(make_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    file = make_file()
    document = json.loads(run(capsys, file, "--json"))
    assert (document["schema"], document["fleet"], document["members"]) == ("sottovoce.results/1", "street", 5)
    assert (document["epsilon"], document["unit"], document["epoch"]) == (1.0, "device", 2)
    assert (document["signatures"], document["signatures_required"]) == (5, 4)
    (product,) = document["products"]
    assert len(product["values"]) == len(product["errors"]) == len(product["prior"]) == HALF_HOURS
    rows = list(csv.DictReader(io.StringIO(run(capsys, "show", file, "--csv"))))
    assert [float(row["value"]) for row in rows] == product["values"]
    assert [float(row["standard_error"]) for row in rows] == product["errors"]
    assert {(row["homes"], row["days"], row["epsilon"]) for row in rows} == {("5", "365", "1.0")}
    assert rows[1]["timestamp"] == "2026-01-01T00:30:00+00:00"


def test_the_table_says_when_the_prior_is_better(
    make_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "use the prior" in run(capsys, make_file())
    assert "use the prior" not in run(capsys, make_file(share=1, total=(90_000, -20_000, 30_000, 5, -8)))
    without = {**PROFILE, "learner.prior": []}
    assert "hardly larger than their errors" in run(capsys, make_file(without))


def test_histograms_and_named_vectors_have_tables_too(
    make_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    named = {**SETTINGS, "data.columns": ["north", "east", "south", "west"], "data.windows": None}
    table = run(capsys, make_file(named, total=(1, 2, 3, 4)))
    assert all(name in table for name in ("north", "east", "south", "west"))
    numbered = json.loads(run(capsys, make_file(SETTINGS, total=(1, 2, 3, 4)), "--json"))["products"][0]
    assert numbered["labels"] == ["0", "1", "2", "3"]
    assert numbered["values"] == [n / 2**10 / 5 for n in (1, 2, 3, 4)]


def test_parquet_has_times_and_quantiles_as_openstef_names_them(
    make_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "street.parquet"
    file = make_file()
    run(capsys, file, "--parquet", out)
    table = parquet.read_table(out).to_pydict()
    product = json.loads(run(capsys, file, "--json"))["products"][0]
    assert table["quantile_P50"] == product["values"]
    assert [time.isoformat() for time in table["timestamp"]] == product["times"]
    spread = np.array(table["quantile_P90"]) - np.array(table["quantile_P10"])
    assert np.allclose(spread, 2 * 1.2815515655 * np.array(product["errors"]))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_page_needs_no_other_file_and_draws_every_value(
    make_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "street.html"
    run(capsys, make_file(), "--html", out)
    page = out.read_text()
    parser = _Tags()
    parser.feed(page)
    assert not any(tag in ("script", "link", "img", "iframe") for tag, _ in parser.tags)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in parser.tags)
    assert "prefers-color-scheme: dark" in page
    lines = {attributes["class"]: attributes["points"] for tag, attributes in parser.tags if tag == "polyline"}
    assert all(len((lines[name] or "").split()) == HALF_HOURS for name in ("value", "prior"))


def test_a_page_has_a_panel_for_each_month_and_a_line_for_each_count(
    make_file: Callable[..., Path], members: list[Identity]
) -> None:
    result = source.read_from_file(make_file())
    months = tuple(f"{month} {i // 2:02d}:00" for month in ("January", "<July>") for i in range(HALF_HOURS))
    profile = Estimate(
        name="monthly-profile", title="Load", unit="kWh", labels=months, values=np.ones(96), errors=np.ones(96),
        error_sources=("noise",), per_row=HALF_HOURS,
    )  # fmt: skip
    counts = Estimate(
        name="flags", title="Homes", unit="homes", labels=("photovoltaics", "heat pump"), values=np.array([0.0, 0.0]),
        errors=np.zeros(2), error_sources=("noise",), prior=np.array([1.0, 2.0]),
    )  # fmt: skip
    page = result_page(result, [replace(profile, truth=np.zeros(96)), counts], {"time": "3 <s>"})
    assert page.count('class="truth"') == 2, "one line in each panel"
    assert "3 &lt;s&gt;" in page
    assert page.count("<figure>") == 2
    assert page.count("<circle") == 2
    assert "&lt;July&gt;" in page
    assert "<July>" not in page


def test_a_result_that_does_not_fit_its_task_is_refused(make_file: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="4 numbers"):
        command_line("results")(["results", str(make_file(total=(1, 2, 3, 4)))], standalone_mode=False)


def test_a_device_s_result_is_written_only_with_enough_signatures(
    make_file: Callable[..., Path], members: list[Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    state, out = tmp_path / "state", tmp_path / "out.result"
    monkeypatch.setattr(source, "load", lambda *_, **__: members[0])
    monkeypatch.setattr(source, "ask", lambda *_, **__: {"results": [make_file(signers=3).read_text()]})
    with pytest.raises(NetworkError, match="3 members signed the result, but 4 of 5 must"):
        run(capsys, "--state", state, "--out", out)
    assert not out.exists()
    monkeypatch.setattr(source, "ask", lambda *_, **__: {"results": [make_file(signers=4).read_text()]})
    run(capsys, "--state", state, "--out", out)
    assert out.read_bytes() == make_file(signers=4).read_bytes()
    with pytest.raises(DataError, match="epoch 7"):
        run(capsys, "--state", state, "--epoch", 7)


@pytest.mark.parametrize(
    "words", [["--json"], ["x", "--state", "y"], ["--state", "x", "--config", "y"], ["x", "--json", "--csv"]]
)
def test_wrong_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError):
        run(capsys, *words)


def test_a_table_of_a_device_says_that_its_signatures_are_valid(
    make_file: Callable[..., Path], members: list[Identity], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(source, "load", lambda *_, **__: members[0])
    monkeypatch.setattr(source, "ask", lambda *_, **__: {"results": [make_file().read_text()]})
    assert "5, of which 4 are required: valid" in run(capsys, "--state", "state")
