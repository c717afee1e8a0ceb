"""Cross-gradients: a device answers its neighbours with the gradients of its own records at their models.

Every answer is a separate release, so a device gives at most a fixed, public number of answers per round, including its
own gradient. If it has more neighbours than that, a public rule lets them take turns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sottovoce.plugin import Floats, Work

OWN = 0
"""Position of the gradient at the device's own model."""


@dataclass(frozen=True, slots=True)
class AnswerRotation:
    """The rule that decides which neighbours receive answers.

    Attributes:
        answers: the number of gradients per round, including the device's own; at least 1.
    """

    answers: int

    def positions(self, work: Work) -> dict[str, int]:
        """Return the neighbours that this device answers in this round, with their positions from 1."""
        neighbours = work.neighbours
        turns = min(self.answers - 1, len(neighbours))
        first = 0 if turns == len(neighbours) else work.round * turns
        return {neighbours[(first + i) % len(neighbours)]: OWN + 1 + i for i in range(turns)}

    def question(self, work: Work, models: Mapping[str, Floats]) -> tuple[int, Floats] | None:
        """Return the next gradient to ask for, float64[P]: at the device's own model first, then at received models."""
        if OWN not in work.answers:
            return OWN, work.model
        for peer, position in self.positions(work).items():
            if peer in models and position not in work.answers:
                return position, models[peer]
        return None

    def answer(self, work: Work, recipient: str) -> Floats:
        """Return the gradient at a neighbour's model, float64[1, P], or float64[0, P] if this round has none."""
        gradient = work.answers.get(self.positions(work).get(recipient, -1))
        return np.empty((0, work.model.size)) if gradient is None else gradient[None]


def gradients(work: Work, phase: int) -> dict[str, Floats]:
    """Return the gradients at the device's own model: its own first, as `own`, then the neighbours' from `phase`."""
    own = {"own": work.answers[OWN]} if OWN in work.answers else {}
    return {**own, **dict(sorted(work.first(phase).items()))}
