"""Learners in synchronous rounds between neighbours: PDSL (arXiv 2503.23726) and the algorithms it is compared with."""

from sottovoce.learners.rounds.algorithm import Algorithm, Mixing, Work
from sottovoce.learners.rounds.cross import Rationing
from sottovoce.learners.rounds.dp_cga import DpCga
from sottovoce.learners.rounds.dp_dpsgd import DpDpsgd
from sottovoce.learners.rounds.dp_net_fleet import DpNetFleet
from sottovoce.learners.rounds.machine import Rounds
from sottovoce.learners.rounds.messages import RoundMessage
from sottovoce.learners.rounds.muffliato import Muffliato
from sottovoce.learners.rounds.pdsl import Pdsl
from sottovoce.learners.rounds.schedule import RoundsSchedule
from sottovoce.learners.rounds.state import RoundsState
from sottovoce.learners.rounds.weighing import Weighing

__all__ = [
    "Algorithm",
    "DpCga",
    "DpDpsgd",
    "DpNetFleet",
    "Mixing",
    "Muffliato",
    "Pdsl",
    "Rationing",
    "RoundMessage",
    "Rounds",
    "RoundsSchedule",
    "RoundsState",
    "Weighing",
    "Work",
]
