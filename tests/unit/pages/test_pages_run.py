"""Page of a run: whole, self-contained, escaped, and readable without seeing it."""

import json
import math
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import ExitCode
from sottovoce_lab.pages.html import Markup, Page, facts, table, warnings
from sottovoce_lab.pages.plots import Plotter
from sottovoce_lab.pages.reading import RunReport, read_report
from sottovoce_lab.pages.run import run_page

from tests.support.command import here

_VOID = {"meta", "br", "hr", "img", "link", "input"}
_NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


class _Reader(HTMLParser):
    """Checks that tags are closed in order, and collects what matters."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids)), "two drawings share a name"
    return reader


def _report(**others: Any) -> dict[str, Any]:
    curve = [
        {"cycle": i, "t_s": 0.1 * i, "accuracy_mean": 0.5 + i / 100, "accuracy_min": 0.4, "accuracy_max": 0.9,
         "loss_mean": 1 / (i + 1)}
        for i in range(20)
    ]  # fmt: skip
    return {
        "schema": "sottovoce.report/1",
        "run": {"learner": "clipd2p", "agents": 3, "data": "digits", "cycles": 20, "wall_s": 3.5, "mixing": {"a": 1}},
        "privacy": {
            "unit": "record", "neighbouring": "add-remove", "mechanism": "noise", "epsilon": 2.0, "delta": 1e-5,
            "status": "proved", "reason": "a proof", "spent_epsilon_max": 1.5, "releases": 60, "threat_model": "all",
            "ledgers_agree": True, "composition": "adds up",
        },
        "curve": curve,
        "final": {key: value for key, value in curve[-1].items() if key not in ("cycle", "t_s")},
        "traffic": {"messages": 10, "payload_bytes": 100, "wire_bytes": 200, "wire_bytes_per_agent_cycle": 3.5},
        "resources": {"ready_s_median": 1.0, "rss_mib_median": 79.0, "rss_mib_max": 80.5, "cpu_s_per_agent": 1.0},
        "agents": [
            {"id": f"agent-{i}", "alive": i > 0, "cycles": 20, "peers": 2, "epsilon_spent": 1 + i / 4, "releases": 20}
            for i in range(3)
        ],
        "faults": ["loss=0.3"],
        "warnings": [],
        **others,
    }  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Drawn by matplotlib, once."""
    path = tmp_path_factory.mktemp("page") / "run.json"
    path.write_text(json.dumps(_report()))
    ended = here("report", path)
    assert ended.code == 0, ended.err
    assert ended.out.strip() == str(path.with_suffix(".html"))
    return path.with_suffix(".html").read_text()


class _Hand(Plotter):
    """Draws nothing, but says what it would."""

    def __init__(self) -> None:
        super().__init__(None)

    def lines(self, title: str, *_: object, **__: object) -> Markup:
        return Markup(f"<svg><title>{escape(title)}</title></svg>")

    def bars(self, title: str, *_: object, **__: object) -> Markup:
        return self.lines(title)


def _undrawn(directory: Path, report: dict[str, Any]) -> str:
    path = directory / "run.json"
    path.write_text(json.dumps(report))
    found = read_report(path)
    assert isinstance(found, RunReport)
    return run_page(found, _Hand())


def test_a_run(page: str) -> None:
    reader = _read(page)
    words = " ".join(reader.words)
    for expected in ("0.69", "ε = 1.500 of 2 spent", "proved", "loss=0.3", "2 of 3 were running at the end", "agent-2"):
        assert expected in words, expected
    assert page.count('role="img"') == 3, "accuracy, loss, and what each agent spent"
    assert {"svg", "title", "figcaption", "progress", "caption"} <= reader.tags
    assert ("lang", "en") in reader.attributes


def test_baselines_stand_beside_the_result(tmp_path: Path) -> None:
    page = _undrawn(tmp_path, _report(baselines={"majority_class": 0.125, "own_data": 0.875}))
    assert (
        "with its own records and no noise, reaches 0.875; always predicting the most common class reaches 0.125"
        in page
    )


def test_a_spent_budget_says_so(tmp_path: Path) -> None:
    privacy = _report()["privacy"] | {"spent_epsilon_max": 2.0}
    assert "none left: no more releases" in _undrawn(tmp_path, _report(privacy=privacy))


def test_a_picture_follows_the_theme(tmp_path: Path) -> None:
    path, picture = tmp_path / "run.json", tmp_path / "run.svg"
    path.write_text(json.dumps(_report(baselines={"majority_class": 0.125, "own_data": 0.875})))
    assert here("report", path, "--picture", picture).code == 0
    svg = picture.read_text()
    assert svg.startswith("<svg ")
    assert "prefers-color-scheme:dark" in svg
    assert "#000000" not in svg
    assert "own data alone" in svg
    for arguments in (["--picture", tmp_path / "run.png"], ["--picture", tmp_path / "no" / "where.svg"]):
        assert here("report", path, *arguments).code == ExitCode.USAGE
    path.write_text(json.dumps(_report(curve=[])))
    ended = here("report", path, "--picture", picture)
    assert (ended.code, "no curve over cycles" in ended.err) == (ExitCode.DATA, True)


def test_it_asks_nothing_of_any_network_and_runs_nothing(page: str) -> None:
    reader = _read(page)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("src", "action", "srcset")]
    assert all(value.startswith("#") for name, value in reader.attributes if name in ("href", "xlink:href"))
    assert set(re.findall(r"https?://[^\s\"'<>)]+", page)) <= _NAMESPACES
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_values_are_words_whatever_they_hold(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    report = _report(faults=[evil], warnings=[evil])
    report["run"] |= {"learner": evil, "data": evil}
    report["privacy"] |= {"mechanism": evil, "status": evil, "reason": evil}
    report["agents"][0]["id"] = evil
    reader = _read(_undrawn(tmp_path, report))
    assert "script" not in reader.tags
    assert any(evil in word for word in reader.words)


def test_runs_of_other_kinds(tmp_path: Path) -> None:
    errors = {"accuracy_mean": None, "rmse_mean": 0.25, "rmse_max": 0.5, "loss_mean": 0.1, "unit": "kWh"}
    kinds: tuple[dict[str, Any], ...] = (
        {"curve": [{"cycle": i, "t_s": 1.0, **errors} for i in range(3)], "final": errors},
        {"curve": []},
        {"curve": [{"cycle": 1, "t_s": 1.0, "accuracy_mean": 0.5, "loss_mean": math.inf}]},
        {"agents": []},
        {"privacy": _report()["privacy"] | {"epsilon": None, "delta": None, "spent_epsilon_max": None}},
        {"privacy": _report()["privacy"] | {"spent_epsilon_max": None, "status": "refuted"}},
        {"resources": {"ready_s_median": None, "rss_mib_median": None, "rss_mib_max": None, "cpu_s_per_agent": None}},
    )
    for others in kinds:
        _read(_undrawn(tmp_path, _report(**others)))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "no json", json.dumps(_report(schema="other/1")), json.dumps(_report(curve=3))]
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    ended = here("report", path)
    assert (ended.code, str(path) in ended.err) == (ExitCode.DATA, True), ended.err
    assert "--report" in ended.err
    assert not (tmp_path / "run.html").exists()


def test_usage(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(_report()))
    for arguments in ([], [path, "--state", tmp_path], [path, "--out", path], [path, "--out", tmp_path / "no/where"]):
        ended = here("report", *arguments)
        assert ended.code == ExitCode.USAGE, ended.err
    assert here("report", tmp_path / "missing.json").code == ExitCode.DATA


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(_report()))
    ended = here("report", path)
    assert (ended.code, "sottovoce[experiments]" in ended.err) == (ExitCode.USAGE, True)


def test_parts_of_a_page_escape() -> None:
    page = Page("<b>")
    page.add(warnings(["<i>"]), facts("<u>", [("<s>", "<p>")]), table("<q>", ["<a>"], [["<em>"]]))
    reader = _read(page.html())
    assert not reader.tags & {"b", "i", "u", "s", "q", "a", "em"}
    assert warnings([]).html == ""
