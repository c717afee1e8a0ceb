"""Registry entries for learners in synchronous rounds: pdsl, dp-dpsgd, dp-cga, muffliato, dp-net-fleet."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sottovoce.algorithms.rounds.settings import (
    DpCgaSettings,
    DpDpsgdSettings,
    DpNetFleetSettings,
    MuffliatoSettings,
    PdslSettings,
    RoundsSettings,
)
from sottovoce.learning.registry import Algorithm, by_name

if TYPE_CHECKING:
    from sottovoce.algorithms.rounds.rules import Rule

_CROSS = "a model, noisy gradients at neighbours' models and at its own, and values computed from them"
_OWN_GRADIENT = "a model, after steps along noisy gradients of random batches"
_AUDIT = {"data.features": 256, "data.classes": 2}


def rounds_algorithm(settings: type[RoundsSettings], rule: "Callable[[], Rule]", **attributes: Any) -> Algorithm:
    """Return an algorithm in rounds that asks its vault for noisy mean gradients on random batches.

    Args:
        settings: the algorithm's settings, tagged with its name.
        rule: returns the rule for the algorithm's rounds; it imports the rule only when called.
        attributes: attributes of Algorithm that differ from those shared by all algorithms in rounds.
    """

    def parts(config: Any, public: Any) -> Any:
        from sottovoce.algorithms.rounds.parts import build_parts

        return build_parts(config, rule(), public)

    def wire() -> Any:
        from sottovoce.algorithms.rounds import codec

        return codec

    defaults: dict[str, Any] = {
        "releases": _OWN_GRADIENT,
        "record_level": True,
        "topology": "full",
        "mutual": True,
        "payloads": {"round-message/1": wire},
    }
    return Algorithm(
        settings=settings,
        parts=parts,
        one_member="shifts its neighbours' models",
        **{**defaults, **attributes, "audit": {**_AUDIT, **attributes.get("audit", {})}},
    )


def _built_in_algorithm(settings: type[RoundsSettings], **attributes: Any) -> Algorithm:
    def rule() -> "Rule":
        from sottovoce.algorithms.rounds.rules import RULES

        return RULES[settings]

    return rounds_algorithm(settings, rule, paper_status="as-published", **attributes)


ALGORITHMS = by_name(
    _built_in_algorithm(
        PdslSettings,
        releases=_CROSS,
        audit={"learner.shapley": "uniform"},  # the other rules need public records; no vault ever releases a weight
    ),
    _built_in_algorithm(DpDpsgdSettings),
    _built_in_algorithm(DpCgaSettings, releases=_CROSS),
    _built_in_algorithm(MuffliatoSettings, audit={"learner.gossip_steps": 1}),
    _built_in_algorithm(
        DpNetFleetSettings,
        releases="a model and a direction, after steps along noisy gradients of random batches",
    ),
)
