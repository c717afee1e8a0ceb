"""Push-sum SGD's algorithms, as values: push-sum, and AdaD²P's three learners in their sound variants."""

from typing import Any

from sottovoce.registry import Algorithm, Relation

_KEYS = (
    "steps", "clip", "step_size", "step_decay", "sampling", "batch", "longest_period", "fanout", "clipping",
    "clip_decay", "clip_quantile",
)  # fmt: skip


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.push_sum.parts import family

    return family(config)


def _wire() -> Any:
    from sottovoce.algorithms.push_sum import wire

    return wire


def _relation(fidelity: str, controller: object, release_every: object) -> Relation:
    return "replace-one" if fidelity == "paper" else "add-remove"  # batches of a fixed size show how many there are


def _of_push_sum(**own: Any) -> Algorithm:
    return Algorithm(
        parts=_parts,
        relation=_relation,
        regression=True,
        payloads={"push-sum-share/1": _wire},
        audit={"data.features": 256, "data.classes": 2},
        **own,
    )


def _noisy(**own: Any) -> Algorithm:
    return _of_push_sum(
        releases="shares of a model, each after a step along a noisy sum of clipped gradients", step_decay=0.5, **own
    )


ALGORITHMS = {
    "clipd2p": _noisy(name="clipd2p", keys=(*_KEYS, "sigma"), to_the_letter="as-published"),
    "push-sum": _of_push_sum(
        name="push-sum",
        releases="shares of a model, each after a step along the exact sum of gradients",
        keys=_KEYS,
        noiseless=True,
    ),
    "adad2p": _noisy(name="adad2p", keys=(*_KEYS, "sigma"), to_the_letter="refuted"),
    "constd2p": _noisy(name="constd2p", keys=(*_KEYS, "sigma", "gradient_bound"), to_the_letter="refuted"),
}
