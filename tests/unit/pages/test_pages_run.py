"""Page about a run: complete, self-contained, escaped, and accessible."""

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
from sottovoce_lab.pages.plots import COLOURS, Plotter, spread
from sottovoce_lab.pages.report_types import RunReport, read_report
from sottovoce_lab.pages.run import run_page

from tests.support.command import run_here

_VOID = {"meta", "br", "hr", "img", "link", "input"}
_NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


class _Reader(HTMLParser):
    """Parser that checks the order of closing tags, and collects the relevant parts."""

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


def _parse(page: str) -> _Reader:
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
    """The page, drawn by matplotlib once."""
    path = tmp_path_factory.mktemp("page") / "run.json"
    path.write_text(json.dumps(_report()))
    completed = run_here("report", path)
    assert completed.code == 0, completed.err
    assert completed.out.strip() == str(path.with_suffix(".html"))
    return path.with_suffix(".html").read_text()


class _Hand(Plotter):
    """Stand-in that draws nothing, but records what it would draw."""

    def __init__(self) -> None:
        super().__init__(None)

    def lines(self, title: str, *_: object, **__: object) -> Markup:
        return Markup(f"<svg><title>{escape(title)}</title></svg>")

    def bars(self, title: str, *_: object, **__: object) -> Markup:
        return self.lines(title)


def _undrawn(directory: Path, report: dict[str, Any]) -> str:
    path = directory / "run.json"
    path.write_text(json.dumps(report))
    result = read_report(path)
    assert isinstance(result, RunReport)
    return run_page(result, _Hand())


def test_the_page_of_a_run(page: str) -> None:
    reader = _parse(page)
    words = " ".join(reader.words)
    for expected in ("0.69", "ε = 1.5 of 2 spent", "proved", "loss=0.3", "2 of 3 were running at the end", "agent-2"):
        assert expected in words, expected
    assert page.count('role="img"') == 3, "accuracy, loss, and each agent's spending"
    assert {"svg", "title", "figcaption", "progress", "caption"} <= reader.tags
    assert ("lang", "en") in reader.attributes


_COMPARED: dict[str, Any] = {
    "baselines": {"majority_class": 0.125, "own_data": 0.6125},
    "comparisons": [
        {"label": label, "accuracy_mean": value, "half_interval": 0.0456, "seeds": 3, "promise": "no one"}
        for label, value in {"alone, ε = 2": 0.3, "secure sums": 0.925, "no noise": 0.975}.items()
    ],
}
_ORDER = ["0.125", "0.300", "0.613", "0.690", "0.925", "0.975"]  # from the worst to the best, the run among them


def test_the_comparison_is_a_table_in_order_in_which_the_run_is_marked(tmp_path: Path) -> None:
    page = _undrawn(tmp_path, _report(**_COMPARED))
    table_of_comparison = page[page.index("is protected against") : page.index("</table>")]
    assert re.findall(r"<td>(0\.\d+)", table_of_comparison) == _ORDER
    marked = re.findall(r'<tr class="marked">(.*?)</tr>', table_of_comparison)
    assert [("0.690" in row, "this run: 3 devices" in row) for row in marked] == [(True, True)]
    assert table_of_comparison.count("±\u00a00.046") == 3, "intervals of the simulations"


def test_the_picture_shows_the_run_among_all_that_it_is_compared_with(tmp_path: Path) -> None:
    path, picture = tmp_path / "run.json", tmp_path / "run.svg"
    path.write_text(json.dumps(_report(**_COMPARED)))
    assert run_here("report", path, "--picture", picture).code == 0
    labels = re.findall(r"<text[^>]*>(0\.\d{3}) \w[^<]*</text>", picture.read_text())
    assert sorted(labels) == _ORDER


def test_labels_move_apart_but_not_beyond_the_top() -> None:
    moved = spread([0.1, 0.88, 0.925, 0.96], 0.1, 1.0)
    assert moved[0] == 0.1
    assert moved[1:] == pytest.approx([0.8, 0.9, 1.0])


def test_equal_results_are_no_range(tmp_path: Path) -> None:
    final = {"accuracy_mean": 0.885794, "accuracy_min": 0.885794, "accuracy_max": 0.885794}
    words = " ".join(_parse(_undrawn(tmp_path, _report(final=final))).words)
    assert "0.886" in words
    assert "0.8858" not in words
    assert "to 0.886" not in words


def test_the_reason_of_a_promise_links_its_pages(page: str, tmp_path: Path) -> None:
    privacy = _report()["privacy"] | {"reason": "docs/explanation/privacy-model.md; docs/no/page.md"}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(_report(privacy=privacy)))
    assert run_here("report", path).code == 0
    text = path.with_suffix(".html").read_text()
    ((address, title),) = re.findall(r'<a href="([^"]+)">([^<]+)</a>', text)
    assert (tmp_path / address).resolve().read_text().startswith(f"# {title}\n")
    assert "docs/no/page.md" in text


@pytest.mark.parametrize("background", ["#ffffff", "#14181d"])
def test_curves_are_visible_on_light_and_dark_pages(background: str) -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for colour in COLOURS:
        dark, light = sorted((luminance(colour), luminance(background)))
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


def test_a_spent_budget_is_reported(tmp_path: Path) -> None:
    privacy = _report()["privacy"] | {"spent_epsilon_max": 2.0}
    assert "none left: no more releases" in _undrawn(tmp_path, _report(privacy=privacy))


def test_a_picture_follows_the_theme(tmp_path: Path) -> None:
    path, picture = tmp_path / "run.json", tmp_path / "run.svg"
    path.write_text(json.dumps(_report(baselines={"majority_class": 0.125, "own_data": 0.875})))
    assert run_here("report", path, "--picture", picture).code == 0
    svg = picture.read_text()
    assert svg.startswith("<svg ")
    assert "prefers-color-scheme:dark" in svg
    assert "#000000" not in svg
    assert "one device alone, no noise" in svg
    for arguments in (["--picture", tmp_path / "run.png"], ["--picture", tmp_path / "no" / "where.svg"]):
        assert run_here("report", path, *arguments).code == ExitCode.USAGE
    path.write_text(json.dumps(_report(curve=[])))
    completed = run_here("report", path, "--picture", picture)
    assert (completed.code, "no curve over cycles" in completed.err) == (ExitCode.DATA, True)


def test_page_has_no_scripts_or_external_resources(page: str) -> None:
    reader = _parse(page)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("src", "action", "srcset")]
    assert all(value.startswith("#") for name, value in reader.attributes if name in ("href", "xlink:href"))
    for colour in ("#ffffff", "#000000"):
        assert colour not in page, "a plot has the colours of the page"
    assert set(re.findall(r"https?://[^\s\"'<>)]+", page)) <= _NAMESPACES
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_values_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    report = _report(faults=[evil], warnings=[evil])
    report["run"] |= {"learner": evil, "data": evil}
    report["privacy"] |= {"mechanism": evil, "status": evil, "reason": evil}
    report["agents"][0]["id"] = evil
    reader = _parse(_undrawn(tmp_path, report))
    assert "script" not in reader.tags
    assert any(evil in word for word in reader.words)


def test_pages_of_other_runs(tmp_path: Path) -> None:
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
        _parse(_undrawn(tmp_path, _report(**others)))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "no json", json.dumps(_report(schema="other/1")), json.dumps(_report(curve=3))]
)
def test_an_invalid_report_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    completed = run_here("report", path)
    assert (completed.code, str(path) in completed.err) == (ExitCode.DATA, True), completed.err
    assert "--report" in completed.err
    assert not (tmp_path / "run.html").exists()


def test_usage_errors(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(_report()))
    for arguments in ([], [path, "--state", tmp_path], [path, "--out", path], [path, "--out", tmp_path / "no/where"]):
        completed = run_here("report", *arguments)
        assert completed.code == ExitCode.USAGE, completed.err
    assert run_here("report", tmp_path / "missing.json").code == ExitCode.DATA


def test_without_matplotlib_there_are_no_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(_report()))
    completed = run_here("report", path)
    assert (completed.code, "sottovoce[experiments]" in completed.err) == (ExitCode.USAGE, True)


def test_page_fragments_are_escaped() -> None:
    page = Page("<b>")
    page.add(warnings(["<i>"]), facts("<u>", [("<s>", "<p>")]), table("<q>", ["<a>"], [["<em>"]]))
    reader = _parse(page.html())
    assert not reader.tags & {"b", "i", "u", "s", "q", "a", "em"}
    assert warnings([]).html == ""
