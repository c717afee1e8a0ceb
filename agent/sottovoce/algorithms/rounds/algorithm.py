"""Synchronous rounds between neighbours, as values: pdsl, dp-dpsgd, dp-cga, muffliato, dp-net-fleet."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sottovoce.registry import Algorithm

if TYPE_CHECKING:
    from sottovoce.algorithms.rounds.rules import Rule

_KEYS = ("steps", "clip", "step_size", "step_decay", "sampling", "batch", "deadline")
_CROSS = "a model, noisy gradients at neighbours' models and at its own, and what is computed from them"
_OWN_GRADIENT = "a model, after steps along noisy gradients of random batches"
_AUDIT = {"data.features": 256, "data.classes": 2}


def of_rounds(name: str, rule: "Callable[[], Rule]", *keys: str, **own: Any) -> Algorithm:
    """An algorithm in rounds, its vault asked for noisy mean gradients of random batches.

    Args:
        name: of the algorithm.
        rule: finds what happens in a round, when it is asked for.
        keys: of `[learner]`, beside those of every algorithm in rounds.
        own: attributes of Algorithm that it has otherwise than the others in rounds.
    """

    def parts(config: Any, public: Any) -> Any:
        from sottovoce.algorithms.rounds.parts import family

        return family(config, rule(), public)

    def wire() -> Any:
        from sottovoce.algorithms.rounds import wire as codec

        return codec

    usual: dict[str, Any] = {
        "releases": _OWN_GRADIENT,
        "record_level": True,
        "batch": 128,
        "topology": "full",
        "mutual": True,
        "payloads": {"round-message/1": wire},
    }
    return Algorithm(
        name=name,
        parts=parts,
        keys=(*_KEYS, *keys),
        **{**usual, **own, "audit": {**_AUDIT, **own.get("audit", {})}},
    )


def _rule(name: str) -> "Callable[[], Rule]":
    def found() -> "Rule":
        from sottovoce.algorithms.rounds.rules import RULES

        return RULES[name]

    return found


ALGORITHMS = {
    "pdsl": of_rounds(
        "pdsl",
        _rule("pdsl"),
        *("momentum", "shapley", "permutations", "answers"),
        releases=_CROSS,
        to_the_letter="as-published",
        audit={"learner.shapley": "uniform"},  # the others need public records; no vault releases a weight
    ),
    "dp-dpsgd": of_rounds("dp-dpsgd", _rule("dp-dpsgd"), to_the_letter="as-published"),
    "dp-cga": of_rounds(
        "dp-cga", _rule("dp-cga"), "momentum", "answers", releases=_CROSS, to_the_letter="as-published", step_size=10.0
    ),
    "muffliato": of_rounds(
        "muffliato",
        _rule("muffliato"),
        *("gossip_steps", "chebyshev", "spectral_gap"),
        to_the_letter="as-published",
        audit={"learner.gossip_steps": 1},
    ),
    "dp-net-fleet": of_rounds(
        "dp-net-fleet",
        _rule("dp-net-fleet"),
        "local_steps",
        releases="a model and a direction, after steps along noisy gradients of random batches",
        to_the_letter="as-published",
    ),
}
