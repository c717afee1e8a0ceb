"""`sottovoce advise`: its recommendation as text and as JSON; the advice itself is tested elsewhere."""

import json

import pytest
from sottovoce_lab.library import advice
from sottovoce_lab.library.advice import Recommendation

from tests.support.command import run_here

_FOUND = [
    Recommendation("group-sgd", {3.5: (0.9, 0.92)}, 4096.0, "peers", "nothing", False, {"steps": 40}),
    Recommendation("push-sum", {3.5: (0.85, 0.87)}, 2048.0, "anyone", "little", True, {"steps": 30, "step_size": 20.0}),
]


@pytest.fixture(autouse=True)
def _stub_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "advise", lambda shape, told: _FOUND)


def test_a_recommendation_lists_settings_guarantee_and_the_best_local_noise() -> None:
    completed = run_here("advise", "--agents", "20", "--features", "8", "--classes", "4")
    assert completed.code == 0, completed.err
    assert "group-sgd" in completed.err, "the first answer"
    lines = {line[:11].strip(): line[12:] for line in completed.out.splitlines()}
    assert lines["learner"] == "group-sgd"
    assert lines["settings"] == "steps = 40"
    assert lines["accuracy"].startswith("0.90 to 0.92")
    assert lines["accuracy"].endswith("guessing achieves 0.25")
    assert lines["traffic"] == "4 KiB from each device"
    assert lines["local noise"].startswith("push-sum, 0.85 to 0.87")
    assert lines["others"] == "push-sum -0.050"
    assert lines["simulated"].startswith("12 devices with 120 records")


def test_the_document_contains_every_learner() -> None:
    document = json.loads(run_here("advise", "--json").out)
    assert document["learner"] == "group-sgd"
    assert document["majority_class"] == 0.1
    assert [item["learner"] for item in document["all"]] == ["group-sgd", "push-sum"]
    assert document["interval"] == [0.9, 0.92]
