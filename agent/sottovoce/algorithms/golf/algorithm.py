"""Gossip learning on perturbed records (Hegedűs & Jelasity 2017), as a value."""

from typing import Any

from sottovoce.registry import Algorithm


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.golf.parts import family

    return family(config)


def _wire() -> Any:
    from sottovoce.algorithms.golf import wire

    return wire


ALGORITHMS = {
    "golf": Algorithm(
        name="golf",
        releases="each record once, perturbed, and models computed from perturbed records",
        parts=_parts,
        keys=("longest_period", "batch", "perturbation", "capacity"),
        models=("ridge", "pegasos", "logistic"),
        neighbouring="replace-one",
        to_the_letter="proved",
        letter_model="pegasos",
        record_level=True,
        batch=128,
        most_in_a_batch=4096,
        scaled_by_training=True,
        payloads={"golf-message/1": _wire},
        audit={"data.features": 8, "data.classes": 3},
    )
}
