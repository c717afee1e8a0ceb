"""Which settings allow a fleet to centre its records by a private mean, whatever the learner."""

from sottovoce.config import AgentConfig
from sottovoce.data.transform import parse_steps


def find_obstacle(config: AgentConfig) -> str | None:
    """Return why a learner cannot centre records by a private mean with this model, unit and transform; else None."""
    if config.learner.chosen_model != "softmax":
        return (
            f"only softmax is linear in the records of several classes, and the model is {config.learner.chosen_model}"
        )
    if config.unit != "record" or config.follows:
        return f"the sum is bounded per record, and privacy.unit is {config.unit}"
    if bias_of(config.data.transform) is None:
        return "records must be vectors of length 1 with a bias: data.transform must end in unit,bias(B)"
    return None


def bias_of(transform: str) -> float | None:
    """Return b if a transform makes vectors of length 1 with the bias b; otherwise None."""
    match parse_steps(transform)[-2:]:
        case (("unit", _), ("bias", bias)):
            return bias
    return None
