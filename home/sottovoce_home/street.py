"""The street's mean day for Home Assistant: the public result of the secure sum, and nothing of this home alone."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from sottovoce.config import AgentConfig
from sottovoce.node.control import decode_parameters

_HALF_HOURS = 48
_FIRST_DAY = date(1970, 1, 1)


def street_document(config: AgentConfig, status: dict[str, Any] | None, model: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest result as a JSON-serialisable document; None if there is none, or it is not a day's profile.

    Args:
        config: the complete configuration.
        status: the agent's status; None if the agent does not answer.
        model: the agent's answer to `model`; empty if it has none.
    """
    is_result = config.cell is not None and config.learner.algorithm.sums_are_results
    if status is None or not model or not is_result or getattr(config.learner, "products", False):
        return None
    values = decode_parameters(model)
    if values is None or len(values) != _HALF_HOURS or not np.isfinite(values).all():
        return None
    windows = config.data.windows
    days = [None, None] if windows is None else [str(_FIRST_DAY + timedelta(days=day)) for day in windows]
    return {
        "kwh": round(float(values.sum()), 3),
        "half_hours": [round(float(value), 4) for value in values],
        "homes": status.get("members"),
        "epsilon": status["privacy"]["epsilon"],
        "epoch": status["task"]["epoch"],
        "first_day": days[0],
        "last_day": days[1],
    }
