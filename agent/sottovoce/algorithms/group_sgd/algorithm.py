"""DP-SGD over secure sums, as a value."""

from typing import Any

from sottovoce.algorithms.group_sgd.settings import GroupSgdSettings
from sottovoce.registry import Algorithm, by_name


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.group_sgd.parts import family

    return family(config)


def _cells() -> Any:
    from sottovoce.algorithms.cell import wire

    return wire


ALGORITHMS = by_name(
    Algorithm(
        settings=GroupSgdSettings,
        releases="masked vectors, of which no more than their noisy sum over a cell can be seen",
        parts=_parts,
        topology="full",
        in_cells="always",
        one_member="shifts the sum by its own part; it blocks one round at most, and is named",
        payloads={"secure-sum/2": _cells},
        audit={"learner.steps": 3},
    )
)
