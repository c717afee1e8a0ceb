"""The comparison of a run with simple rules and with simulations on the same data, for a page and for a console."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEASURES = {"accuracy": "accuracy", "mae": "mean absolute error", "rmse": "root mean square error", "loss": "loss"}
"""The measures that a report may hold, each with its description."""

_NO_RECORD = "anyone: no record of another device is used"
_NO_MODEL = "anyone without access to its model"


@dataclass(frozen=True, slots=True)
class Row:
    """A way to predict, and its result.

    Attributes:
        label: the way to predict.
        value: its result, in the comparison's measure.
        promise: the adversaries against whom a record is protected.
        half_interval: half the 95 % interval of the result; None for a single result.
        is_run: whether this is the reported run itself.
    """

    label: str
    value: float
    promise: str
    half_interval: float | None = None
    is_run: bool = False


def main_measure(final: Mapping[str, Any]) -> str:
    """Return the key in MEASURES of the measure by which a run is judged."""
    if final.get("accuracy_mean") is not None:
        return "accuracy"
    if final.get("mae_mean") is not None:
        return "mae"
    return "rmse" if final.get("rmse_mean") is not None else "loss"


def compare(report: Mapping[str, Any]) -> list[Row]:
    """Return the run with all that its report compares it with, from the worst to the best; without a result, nothing.

    Args:
        report: a document of the format `sottovoce.report/1`.
    """
    run, final, privacy = report["run"], report["final"], report["privacy"]
    measure = main_measure(final)
    if measure == "loss":
        return []
    budget = "no ε" if privacy["epsilon"] is None else f"ε = {privacy['epsilon']:g}"
    threat_model = privacy["threat_model"].removeprefix("local: ").partition(";")[0]
    label = f"this run: {run.get('agents', '?')} devices, {budget}"
    rows = [Row(label, final[f"{measure}_mean"], threat_model, is_run=True)]
    rows += [Row(label, value, promise) for label, value, promise in _rules(report) if value is not None]
    rows += [
        Row(simulation["label"], simulation[f"{measure}_mean"], simulation["promise"], simulation["half_interval"])
        for simulation in report.get("comparisons", [])
    ]
    return sorted(rows, key=lambda row: row.value, reverse=measure != "accuracy")


def format_measure(value: float, measure: str) -> str:
    """Format a result: an accuracy with three decimals, an error with three significant digits."""
    if measure == "accuracy":
        return f"{value:.3f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _rules(report: Mapping[str, Any]) -> list[tuple[str, float | None, str]]:
    """Return simple rules for the same data: what each does, its result, and against whom a record is protected."""
    final, classes = report["final"], report.get("baselines")
    if classes is not None:
        return [
            ("predicting the most common class", classes["majority_class"], _NO_RECORD),
            ("one device alone, no noise", classes["own_data"], _NO_MODEL),
        ]
    if "mae_least_squares" in final:
        return [
            ("predicting the preceding half hour", final.get("mae_persistence"), _NO_RECORD),
            ("predicting the same time yesterday", final.get("mae_same_time_yesterday"), _NO_RECORD),
            ("one device alone, no noise", final.get("mae_own_data"), _NO_MODEL),
            ("an exact fit to all records", final["mae_least_squares"], "no one: it needs all records"),
        ]
    if "rmse_prior" in final:
        return [
            ("the public prior, without any release", final["rmse_prior"], _NO_RECORD),
            ("the same clipping, no noise", final.get("rmse_clip"), "no one: it needs all vectors"),
        ]
    return []
