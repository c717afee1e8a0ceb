"""Decentralised SGD with momentum, as a value."""

from typing import TYPE_CHECKING, Any

from sottovoce.algorithms.momentum.settings import MomentumSettings
from sottovoce.algorithms.rounds.algorithm import of_rounds
from sottovoce.registry import by_name

if TYPE_CHECKING:
    from sottovoce.algorithms.rounds.public import Algorithm
    from sottovoce.algorithms.rounds.rules import Rule


def _made(config: Any, kernel: Any, public: Any) -> "Algorithm":
    from sottovoce.algorithms.family import settings_of
    from sottovoce.algorithms.momentum.rule import Momentum

    return Momentum(settings_of(config, MomentumSettings).momentum)


def _rule() -> "Rule":
    from sottovoce.algorithms.rounds.rules import Rule

    return Rule(_made)


ALGORITHMS = by_name(of_rounds(MomentumSettings, _rule, audit={"learner.momentum": 0.0}))
