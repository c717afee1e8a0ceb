"""Papers' specifications: each requests possible runs, in every panel, at every value."""

from pathlib import Path

import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.experiments import events
from sottovoce_lab.experiments.settings import build_settings
from sottovoce_lab.papers import experiments, papers, runs
from sottovoce_lab.papers.one_run import ARRAYS
from sottovoce_lab.papers.specification import expand_names, read_experiment, read_paper

OWN_KEYS = ("engine", "prepare", "updates", "solver", "gradient_norm", "points", "test_records")


@pytest.mark.parametrize("name", experiments())
def test_every_run_has_existing_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "resolve_source", lambda source, _: source)
    spec = read_experiment(name)
    for extent in (spec.full, spec.quick):
        result = runs.list_runs(spec, extent, Path(), print)
        assert result
        for index, keys in result.items():
            if index.seed:
                continue
            own = {key: value for key, value in keys.items() if key not in OWN_KEYS}
            if keys.get("engine") == ARRAYS:
                build_settings(own, name)
            else:
                events.build_options(own, name)


@pytest.mark.parametrize("name", experiments())
def test_every_name_in_a_specification_is_defined_in_it(name: str) -> None:
    spec = read_experiment(name)
    for claim in spec.claims:
        assert {claim.series, *claim.than} <= spec.series.keys()
        assert set(claim.panels) <= spec.panels.keys()
        assert bool(claim.than) == (claim.check in ("ahead", "not-behind"))
        assert not claim.x or set(claim.x) & set(spec.full.x)
        assert not claim.y or set(claim.y) & set(spec.full.y)
    for part in spec.series.values():
        assert part.column == "" or part.column in spec.series
        assert set(part.at) <= {*spec.panels, *(str(value) for value in [*spec.full.x, *spec.full.y])}
    for extent in (spec.full, spec.quick):
        assert set(extent.panels) | set(extent.at) <= spec.panels.keys()
        assert set(extent.series) <= spec.series.keys()
        assert bool(extent.x) == (spec.x is not None)
        assert bool(extent.y) == (spec.y is not None)
    assert spec.printed.keys() <= spec.panels.keys()
    for rows in spec.printed.values():
        assert rows.keys() <= spec.series.keys()
        assert {value for row in rows.values() for value in row} & {str(value) for value in spec.full.x}


def test_reductions_from_the_paper_s_size_are_reported() -> None:
    unsaid = [
        name for name in experiments() if not name.startswith("sottovoce/") and not name.endswith("equal-privacy")
    ]
    assert [name for name in unsaid if not read_experiment(name).quick.scaled] == []


def test_every_figure_and_table_in_the_four_papers_exists() -> None:
    assert {"hegedus-2017", "jin-2023", "pdsl-2025", "adad2p-2024"} <= set(papers())
    numbered = {
        "hegedus-2017": [f"figure-{n}" for n in range(1, 6)],
        "jin-2023": [*(f"figure-{n}" for n in range(1, 5)), "table-1", "table-2"],
        "pdsl-2025": [*(f"figure-{n}" for n in range(1, 7)), "table-1", "table-2"],
        "adad2p-2024": [f"figure-{n}" for n in range(1, 5)],
    }
    for paper, figures in numbered.items():
        omitted = {figure for omission in read_paper(paper).omitted for figure in omission.figures}
        assert {f"{paper}/{figure}" for figure in figures if figure not in omitted} <= set(experiments(paper))
        assert not omitted & {name.partition("/")[2] for name in experiments(paper)}
        assert read_paper(paper).readings
        assert read_paper(paper).errors


def test_a_paper_s_name_selects_all_its_figures_and_an_unknown_name_none() -> None:
    assert expand_names(["jin-2023", "jin-2023/table-1"]) == experiments("jin-2023")
    assert expand_names([]) == experiments()
    with pytest.raises(UsageError, match=r"jin-2022.*jin-2023"):
        expand_names(["jin-2022"])


def test_an_omitted_figure_is_refused_with_the_reason() -> None:
    (omission,) = read_paper("pdsl-2025").omitted
    for figure in omission.figures:
        with pytest.raises(UsageError, match=rf"{figure}.*not drawn.*CIFAR-10"):
            expand_names([f"pdsl-2025/{figure}"])


@pytest.mark.parametrize("name", papers())
def test_every_reading_with_keys_is_what_the_runs_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "resolve_source", lambda source, _: source)
    for reading in read_paper(name).readings:
        for figure in reading.figures or [experiment.partition("/")[2] for experiment in experiments(name)]:
            spec = read_experiment(f"{name}/{figure}")
            listed = runs.list_runs(spec, spec.full, Path(), print).values()
            for key, value in reading.set.items():
                assert any(keys.get(key) == value for keys in listed), (reading.reading, figure, key)


@pytest.mark.parametrize("figure", ["figure-2", "figure-4", "table-1", "table-2"])
def test_every_strongly_convex_run_of_jin_caps_its_steps(figure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """η = min(1/(2μ), 1/(aγt)) with μ = 1 + λ; without a cap, the first steps are 20,000 and longer."""
    monkeypatch.setattr(runs, "resolve_source", lambda source, _: source)
    spec = read_experiment(f"jin-2023/{figure}")
    strong = [
        keys for keys in runs.list_runs(spec, spec.full, Path(), print).values() if keys.get("learner.regularisation")
    ]
    assert strong
    for keys in strong:
        smoothness = 1 + keys["learner.regularisation"]
        assert keys["learner.step_size"] == pytest.approx(1 / (2 * smoothness), rel=1e-7)
