"""The state machine of learners in synchronous rounds between neighbours."""

from sottovoce.algorithms.rounds.public.machine import Rounds
from sottovoce.algorithms.rounds.public.schedule import RoundsSchedule
from sottovoce.algorithms.rounds.public.state import RoundMessage, RoundsState
from sottovoce.algorithms.rounds.public.work import Mixing, RoundAlgorithm, Work

__all__ = [
    "Mixing",
    "RoundAlgorithm",
    "RoundMessage",
    "Rounds",
    "RoundsSchedule",
    "RoundsState",
    "Work",
]
