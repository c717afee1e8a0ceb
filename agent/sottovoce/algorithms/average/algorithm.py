"""Registry entry for `average`, which computes the mean of one vector per device."""

from typing import Any

from sottovoce.algorithms.average.settings import AverageSettings
from sottovoce.learning.registry import Algorithm, by_name


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.average.parts import build_parts

    return build_parts(config)


def _wire() -> Any:
    from sottovoce.algorithms.push_sum import codec

    return codec


def _cells() -> Any:
    from sottovoce.algorithms.cell import codec

    return codec


ALGORITHMS = by_name(
    Algorithm(
        settings=AverageSettings,
        releases="shares of a mean that includes one noisy vector from this device",
        parts=_parts,
        models=("mean",),
        unit="device",
        predicts=False,
        loads=True,
        secure_sums="optional",
        sums_are_results=True,
        one_member="shifts the mean; with secure sums it blocks at most one round and is identified",
        payloads={"push-sum-share/1": _wire, "secure-sum/4": _cells},
        audit={"data.features": 8, "data.classes": 2},
    )
)
