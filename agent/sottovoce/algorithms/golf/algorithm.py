"""Registry entry for `golf`: gossip learning on perturbed records (Hegedűs & Jelasity 2017)."""

from typing import Any

from sottovoce.algorithms.golf.settings import GolfSettings
from sottovoce.learning.registry import Algorithm, by_name


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.golf.parts import build_parts

    return build_parts(config)


def _wire() -> Any:
    from sottovoce.algorithms.golf import codec

    return codec


def _shares() -> Any:
    from sottovoce.algorithms.push_sum import codec

    return codec


ALGORITHMS = by_name(
    Algorithm(
        settings=GolfSettings,
        releases="each record once, perturbed, and models computed from perturbed records",
        parts=_parts,
        models=("ridge", "pegasos", "logistic"),
        neighbouring="replace-one",
        paper_status="proved",
        paper_model="pegasos",
        record_level=True,
        scaled_by_training=True,
        one_member="adds at most data.expected_records false records; with push-sum it ruins every model",
        payloads={"golf-message/1": _wire, "push-sum-share/1": _shares},
        audit={"data.features": 8, "data.classes": 3},
    )
)
