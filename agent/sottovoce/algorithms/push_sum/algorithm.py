"""Push-sum SGD's algorithms, as values: push-sum, and AdaD²P's three learners in their sound variants."""

from typing import Any

from sottovoce.registry import Algorithm, Relation

_KEYS = (
    "steps", "clip", "step_size", "step_decay", "sampling", "batch", "longest_period", "fanout", "clipping",
    "clip_decay", "clip_quantile",
)  # fmt: skip
_NOISY = "shares of a model, each after a step along a noisy sum of clipped gradients"
_AUDIT = {"data.features": 256, "data.classes": 2}


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.push_sum.parts import family

    return family(config)


def _wire() -> Any:
    from sottovoce.algorithms.push_sum import wire

    return wire


def _relation(fidelity: str, controller: object, release_every: object) -> Relation:
    return "replace-one" if fidelity == "paper" else "add-remove"  # batches of a fixed size show how many there are


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            name="clipd2p",
            releases=_NOISY,
            parts=_parts,
            keys=(*_KEYS, "sigma"),
            relation=_relation,
            to_the_letter="as-published",
            step_decay=0.5,
            regression=True,
            payloads={"push-sum-share/1": _wire},
            audit=_AUDIT,
        ),
        Algorithm(
            name="push-sum",
            releases="shares of a model, each after a step along the exact sum of gradients",
            parts=_parts,
            keys=_KEYS,
            relation=_relation,
            noiseless=True,
            regression=True,
            payloads={"push-sum-share/1": _wire},
            audit=_AUDIT,
        ),
        Algorithm(
            name="adad2p",
            releases=_NOISY,
            parts=_parts,
            keys=(*_KEYS, "sigma"),
            relation=_relation,
            to_the_letter="refuted",
            step_decay=0.5,
            regression=True,
            payloads={"push-sum-share/1": _wire},
            audit=_AUDIT,
        ),
        Algorithm(
            name="constd2p",
            releases=_NOISY,
            parts=_parts,
            keys=(*_KEYS, "sigma", "gradient_bound"),
            relation=_relation,
            to_the_letter="refuted",
            step_decay=0.5,
            regression=True,
            payloads={"push-sum-share/1": _wire},
            audit=_AUDIT,
        ),
    )
}
