"""Registry entries for pdsl, dp-dpsgd, dp-cga, muffliato, dp-net-fleet."""

from typing import TYPE_CHECKING, Any

from sottovoce.plugin import Algorithm, RoundsSettings, rounds_algorithm

from sottovoce_papers.pdsl_2025.settings import (
    DpCgaSettings,
    DpDpsgdSettings,
    DpNetFleetSettings,
    MuffliatoSettings,
    PdslSettings,
)

if TYPE_CHECKING:
    from sottovoce.plugin import Rule

_CROSS = "a model, noisy gradients at neighbours' models and at its own, and values computed from them"


def _algorithm(settings: type[RoundsSettings], **attributes: Any) -> Algorithm:
    def rule() -> "Rule":
        from sottovoce_papers.pdsl_2025.rules import RULES

        return RULES[settings]

    return rounds_algorithm(settings, rule, paper_status="as-published", **attributes)


PDSL = _algorithm(
    PdslSettings,
    releases=_CROSS,
    audit={"learner.shapley": "uniform"},  # the other rules need public records; no vault ever releases a weight
)
DP_DPSGD = _algorithm(DpDpsgdSettings)
DP_CGA = _algorithm(DpCgaSettings, releases=_CROSS)
MUFFLIATO = _algorithm(MuffliatoSettings, audit={"learner.gossip_steps": 1})
DP_NET_FLEET = _algorithm(
    DpNetFleetSettings,
    releases="a model and a direction, after steps along noisy gradients of random batches",
)
