"""Papers' specifications: each requests possible runs, in every panel, at every value."""

from pathlib import Path

import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.experiments import events
from sottovoce_lab.experiments.settings import build_settings
from sottovoce_lab.papers import experiments, papers, runs
from sottovoce_lab.papers.one_run import ARRAYS
from sottovoce_lab.papers.specification import expand_names, read_experiment, read_paper

OWN_KEYS = ("prepare", "updates", "solver", "gradient_norm", "points", "test_records")


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
            if own.get("engine") == ARRAYS:
                del own["engine"]
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
        assert {f"{paper}/{figure}" for figure in figures} <= set(experiments(paper))
        assert read_paper(paper).readings
        assert read_paper(paper).errors


def test_a_paper_s_name_selects_all_its_figures_and_an_unknown_name_none() -> None:
    assert expand_names(["jin-2023", "jin-2023/table-1"]) == experiments("jin-2023")
    assert expand_names([]) == experiments()
    with pytest.raises(UsageError, match=r"jin-2022.*jin-2023"):
        expand_names(["jin-2022"])
