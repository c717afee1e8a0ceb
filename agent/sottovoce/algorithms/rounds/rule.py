"""Rule of an algorithm in rounds: its factory, gradient limit and configuration check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.config import AgentConfig
from sottovoce.data import Records
from sottovoce.kernels import Kernel

if TYPE_CHECKING:  # the vault process only needs the number of questions, and loads no learner
    from sottovoce.algorithms.rounds.public import RoundAlgorithm


def _one_question(config: AgentConfig) -> int:
    return 1


def _do_nothing(config: AgentConfig) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Rule:
    """The factory, gradient limit and configuration check for an algorithm in rounds.

    Attributes:
        create: creates the algorithm for a round from the configuration, the kernel, and the public records to score
            models on; None selects the records in data.public.
        questions: returns the maximum number of gradients that a device may be asked for in one round.
        check: raises ConfigError if the algorithm cannot run with the configuration.
    """

    create: "Callable[[AgentConfig, Kernel, Records | None], RoundAlgorithm]"
    questions: Callable[[AgentConfig], int] = _one_question
    check: Callable[[AgentConfig], None] = _do_nothing
