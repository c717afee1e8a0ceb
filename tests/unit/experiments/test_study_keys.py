"""Every run that a study asks for can be asked for: its keys are there, and its learner's."""

from pathlib import Path

import pytest
from sottovoce_lab.experiments import events
from sottovoce_lab.experiments.studies import studies, study_named
from sottovoce_lab.experiments.studies.runs import asked


@pytest.mark.parametrize("name", studies())
def test_every_run_has_keys_of_its_own_learner(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce_lab.experiments.studies.runs.anchored", lambda source, _: source)
    spec = study_named(name)
    runs = [keys for extent in (spec.full, spec.quick) for keys in asked(spec, extent, Path(), print).values()]
    assert runs
    for keys in runs:
        events.options(keys, name)
