"""One model that goes round (Jin, He & Dai 2023), as values: without-replacement, with-replacement."""

from typing import Any

from sottovoce.registry import Algorithm, Relation

_KEYS = ("clip", "step_size", "batch", "passes", "regularisation", "begins_walk", "deadline")


def _parts(config: Any, public: Any) -> Any:
    from sottovoce.algorithms.shared_model.parts import family

    return family(config)


def _wire() -> Any:
    from sottovoce.algorithms.shared_model import wire

    return wire


def _without(fidelity: str, controller: object, release_every: object) -> Relation:
    chains = release_every != 1 or controller == "always-global"  # of disjoint batches, which have no other bound
    return "replace-one" if chains or fidelity == "paper" else "add-remove"


def _with(fidelity: str, controller: object, release_every: object) -> Relation:
    return "replace-one" if fidelity == "paper" else "add-remove"  # batches of a fixed size show how many there are


def _of_a_shared_model(**own: Any) -> Algorithm:
    return Algorithm(
        parts=_parts,
        to_the_letter="refuted",
        record_level=True,
        clip=0.7,
        batch=50,
        topology="full",
        one_begins=True,
        payloads={"shared-model-message/1": _wire},
        audit={"data.features": 256, "data.classes": 2},
        **own,
    )


ALGORITHMS = {
    "without-replacement": _of_a_shared_model(
        name="without-replacement",
        releases="a model that goes round, after steps along noisy gradients of batches used once",
        keys=(*_KEYS, "controller", "release_every"),
        relation=_without,
        step_size=36.0,
    ),
    "with-replacement": _of_a_shared_model(
        name="with-replacement",
        releases="a model that goes round, after steps along noisy gradients of random batches",
        keys=_KEYS,
        relation=_with,
        step_size=100.0,
    ),
}
