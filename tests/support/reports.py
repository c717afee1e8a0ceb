"""Checks that every report of `sottovoce.report/1` must pass, for any run."""

from typing import Any

NUMBER = (int, float)
MAYBE = (int, float, type(None))

_FIELDS: dict[str, dict[str, Any]] = {
    "run": {
        "learner": str, "fidelity": str, "model": str, "transport": str, "topology": str, "agents": int, "data": str,
        "partition": str, "seed": int, "cycles": int, "wall_s": NUMBER, "version": str,
    },
    "privacy": {
        "unit": str, "neighbouring": str, "mechanism": str, "epsilon": MAYBE, "delta": MAYBE, "status": str,
        "spent_epsilon_max": MAYBE, "releases": int, "threat_model": str, "ledgers_agree": bool,
    },
    "final": {"accuracy_mean": NUMBER, "accuracy_min": NUMBER, "accuracy_max": NUMBER, "loss_mean": NUMBER},
    "traffic": {"messages": int, "payload_bytes": int, "wire_bytes": int, "wire_bytes_per_agent_cycle": NUMBER},
    "resources": {"ready_s_median": MAYBE, "rss_mib_median": MAYBE, "rss_mib_max": MAYBE, "cpu_s_per_agent": MAYBE},
}  # fmt: skip
_ERRORS = {"rmse_mean": NUMBER, "rmse_max": NUMBER, "mae_mean": NUMBER, "rmse_theory": NUMBER, "rmse_clip": NUMBER,
           "rmse_prior": NUMBER, "mean_size": NUMBER}  # fmt: skip
"""Fields in place of accuracies, if the model is a mean and nothing is classified."""
_PREDICTION = {
    "mae_mean": NUMBER, "mae_max": NUMBER, "rmse_mean": NUMBER, "rmse_max": NUMBER, "loss_mean": NUMBER,
    "mae_least_squares": NUMBER, "mae_own_data": MAYBE,
    "mae_persistence": MAYBE, "mae_same_time_yesterday": MAYBE, "unit": (str, type(None)),
}  # fmt: skip
"""Fields in place of accuracies, if a number is predicted."""
_AGENT = {"id": str, "alive": bool, "cycles": int, "peers": int, "epsilon_spent": MAYBE, "releases": int}


def check_report(report: dict[str, Any], *, agents: int) -> None:
    """Check that every field is present and of its type, and that the parts agree with one another."""
    assert report["schema"] == "sottovoce.report/1"
    assert set(report) >= {"schema", *_FIELDS, "curve", "baselines", "agents", "faults", "warnings"}
    quality = _quality(report["final"])
    for part, fields in _FIELDS.items():
        _check(report[part], quality if part == "final" else fields)
    for point in report["curve"]:
        _check(point, {"cycle": int, "t_s": NUMBER, **quality})
    for agent in report["agents"]:
        _check(agent, _AGENT)
    if report["baselines"] is not None:
        _check(report["baselines"], {"majority_class": NUMBER, "own_data": NUMBER})
    assert all(isinstance(word, str) for word in [*report["faults"], *report["warnings"]])
    cycles = [point["cycle"] for point in report["curve"]]
    assert cycles == sorted(set(cycles))
    assert len(report["agents"]) == report["run"]["agents"] == agents
    assert len({agent["id"] for agent in report["agents"]}) == agents
    for measures in [report["final"], *report["curve"]] if quality is _FIELDS["final"] else []:
        assert 0 <= measures["accuracy_min"] <= measures["accuracy_mean"] + 1e-12
        assert measures["accuracy_mean"] - 1e-12 <= measures["accuracy_max"] <= 1
    assert report["traffic"]["wire_bytes"] >= report["traffic"]["payload_bytes"] >= 0
    assert report["privacy"]["ledgers_agree"] is True
    assert report["privacy"]["releases"] == sum(agent["releases"] for agent in report["agents"])
    _check_privacy(report)


def _quality(final: dict[str, Any]) -> dict[str, Any]:
    if "mae_least_squares" in final:
        return _PREDICTION
    return _ERRORS if "rmse_mean" in final else _FIELDS["final"]


def _check_privacy(report: dict[str, Any]) -> None:
    privacy, spent = report["privacy"], [agent["epsilon_spent"] for agent in report["agents"]]
    if privacy["epsilon"] is None:
        assert (privacy["status"], privacy["spent_epsilon_max"], privacy["delta"]) == ("none", None, None)
        assert set(spent) <= {None, 0.0}
        return
    if privacy["status"] == "refuted":  # the report also has the claim, and every release is charged as infinite
        assert privacy["spent_epsilon_max"] is None
        assert set(spent) <= {None, 0.0}
        return
    assert privacy["status"] in ("proved", "not proved")
    assert privacy["spent_epsilon_max"] == max(spent)
    assert 0 < privacy["spent_epsilon_max"] <= privacy["epsilon"]


def _check(part: dict[str, Any], fields: dict[str, Any]) -> None:
    assert set(part) >= set(fields)
    for name, kind in fields.items():
        value = part[name]
        assert isinstance(value, kind), f"{name}: {value!r}"
        assert isinstance(value, bool) == (kind is bool), f"{name}: {value!r}"
