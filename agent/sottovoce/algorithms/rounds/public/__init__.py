"""Learners in synchronous rounds between neighbours: PDSL (arXiv 2503.23726) and the algorithms it is compared with."""

from sottovoce.algorithms.rounds.public.cross import AnswerRotation
from sottovoce.algorithms.rounds.public.dp_cga import DpCga
from sottovoce.algorithms.rounds.public.dp_dpsgd import DpDpsgd
from sottovoce.algorithms.rounds.public.dp_net_fleet import DpNetFleet
from sottovoce.algorithms.rounds.public.machine import Rounds
from sottovoce.algorithms.rounds.public.muffliato import Muffliato
from sottovoce.algorithms.rounds.public.pdsl import Pdsl
from sottovoce.algorithms.rounds.public.schedule import RoundsSchedule
from sottovoce.algorithms.rounds.public.state import RoundMessage, RoundsState
from sottovoce.algorithms.rounds.public.weighing import GradientWeighting
from sottovoce.algorithms.rounds.public.work import Algorithm, Mixing, Work

__all__ = [
    "Algorithm",
    "AnswerRotation",
    "DpCga",
    "DpDpsgd",
    "DpNetFleet",
    "GradientWeighting",
    "Mixing",
    "Muffliato",
    "Pdsl",
    "RoundMessage",
    "Rounds",
    "RoundsSchedule",
    "RoundsState",
    "Work",
]
