"""The mean of a vector a device, as a value."""

from typing import Any

from sottovoce.registry import Algorithm


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.average.parts import family

    return family(config)


def _wire() -> Any:
    from sottovoce.algorithms.push_sum import wire

    return wire


ALGORITHMS = {
    "average": Algorithm(
        name="average",
        releases="shares of a mean, after one noisy vector of this device",
        parts=_parts,
        keys=("clip", "fanout", "longest_period"),
        models=("mean",),
        unit="device",
        clip=2.5,
        predicts=False,
        payloads={"push-sum-share/1": _wire},
        audit={"data.features": 8, "data.classes": 2},
    )
}
