"""An experiment with two series, and invented outcomes for it."""

from typing import Any

from sottovoce_lab.experiments.saved_runs import Outcome
from sottovoce_lab.papers.cells import Cells, build_cells
from sottovoce_lab.papers.runs import RunPosition
from sottovoce_lab.papers.specification import Axis, Claim, Experiment, Extent, Part

PRIVACY = {
    "epsilon": 1.0, "delta": 1e-5, "status": "proved", "reason": "so it is", "unit": "record",
    "neighbouring": "add-remove",
}  # fmt: skip
EXTENT = Extent(seeds=5, x=[1.0, 4.0], minutes=1)


def spec(*claims: Claim, **changes: Any) -> Experiment:
    parts: dict[str, Any] = {
        "title": "Table 1: made up",
        "shows": "What it shows.",
        "x": Axis(key="epsilon", label="ε"),
        "panels": {"made": Part(label="Made up", set={"agents": 3})},
        "series": {"good": Part(label="Good"), "bad": Part(label="Bad", set={"learner": "push-sum"})},
        "claims": list(claims),
        "full": EXTENT,
        "quick": EXTENT,
    }
    return Experiment(**parts | changes)


def outcome(measure: float, majority: float | None = 0.3) -> Outcome:
    return {
        "final": {"accuracy_mean": measure},
        "curve": [[1, {"accuracy_mean": measure / 2}], [2, {"accuracy_mean": measure}]],
        "privacy": PRIVACY,
        "majority": majority,
    }


def made_up(seeds: int = 5, majority: float | None = 0.3) -> Cells:
    """Return outcomes in which good leads bad by at least 0.2, and rises with ε by 0.03."""
    lead = {"good": (0.70, 0.72, 0.74, 0.71, 0.73), "bad": (0.50, 0.53, 0.53, 0.51, 0.53)}
    return build_cells(
        {
            RunPosition("made", series, x, None, seed): outcome(lead[series][seed] + x / 100, majority)
            for series in lead
            for x in (1.0, 4.0)
            for seed in reversed(range(seeds))
        },
        "accuracy_mean",
    )
