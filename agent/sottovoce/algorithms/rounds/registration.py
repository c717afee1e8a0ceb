"""Registry entries for algorithms in rounds."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sottovoce.algorithms.rounds.settings import RoundsSettings
from sottovoce.learning.registry import Algorithm

if TYPE_CHECKING:
    from sottovoce.algorithms.rounds.rule import Rule

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
