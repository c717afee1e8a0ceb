"""The private half of each learner: what it computes from records, and by what bound it is charged."""

from sottovoce.vault.programs.chain import Chain
from sottovoce.vault.programs.gradient import Blocks, GradientSum
from sottovoce.vault.programs.program import Plan, Program
from sottovoce.vault.programs.record import RecordRelease
from sottovoce.vault.programs.stream import WindowTotals
from sottovoce.vault.programs.walk import VisitGradient

__all__ = ["Blocks", "Chain", "GradientSum", "Plan", "Program", "RecordRelease", "VisitGradient", "WindowTotals"]
