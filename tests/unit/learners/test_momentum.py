"""Decentralised SGD with momentum: it learns, and without momentum it is DP-DPSGD's sound variant, to the last bit."""

from typing import Any

from sottovoce.experiments.engines import run
from sottovoce.experiments.figures.sweep import Silent
from sottovoce.experiments.run_spec import run_spec

FEW = {"agents": 4, "cycles": 12, "data": "synthetic", "data.features": 5, "data.records": 400, "epsilon": 50.0}


def final(**keys: Any) -> dict[str, Any]:
    report = run(run_spec({**FEW, **keys}, "test"), Silent())
    assert report["privacy"]["status"] == "proved"
    found: dict[str, Any] = report["final"]
    return found


def test_without_momentum_it_is_dp_dpsgd() -> None:
    assert final(learner="dp-dsgdm") == final(learner="dp-dpsgd")


def test_with_momentum_it_learns_otherwise() -> None:
    other = final(**{"learner": "dp-dsgdm", "learner.momentum": 0.5})
    assert other != final(learner="dp-dsgdm")
    assert other["accuracy_mean"] > 0.8
