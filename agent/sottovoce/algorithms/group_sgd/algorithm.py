"""Registry entry for `group-sgd`: DP-SGD over secure sums."""

from typing import Any

from sottovoce.algorithms.group_sgd.settings import GroupSgdSettings
from sottovoce.learning.registry import Algorithm, by_name


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.group_sgd.parts import build_parts

    return build_parts(config)


def _centre(config: Any) -> str:
    from sottovoce.algorithms.group_sgd.centring import record_sum

    return "none" if record_sum(config) is None else "private"


def _cells() -> Any:
    from sottovoce.algorithms.cell import codec

    return codec


ALGORITHMS = by_name(
    Algorithm(
        settings=GroupSgdSettings,
        releases="masked vectors, which reveal only their noisy sum over a cell",
        parts=_parts,
        topology="full",
        secure_sums="always",
        one_member="shifts the sum by its own part; it blocks at most one round and is identified",
        payloads={"secure-sum/4": _cells},
        resolved={"centre": _centre},
        audit={"learner.steps": 3},
    )
)
